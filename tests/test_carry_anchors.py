"""Origins inside fusions of several calls: each new node belongs to the calls that it computes for."""

from __future__ import annotations

from test_carry import carried

TWO_LAYERS = """g (float[2, 2] x) => (float[2, 2] y)
    <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}, float[2] bias = {1.0, 2.0}, float[2, 2] v = {5.0, 6.0, 7.0, 8.0}> {
    m = MatMul(x, w) h = Add(m, bias) r = Reshape<allowzero = 1>(h, s) y = MatMul(r, v) }"""
TWO_LAYERS = TWO_LAYERS.replace("float[2] bias", "int64[2] s = {2, 2}, float[2] bias")
CALLS = {"m": "a", "h": "a", "r": "b", "y": "c"}


def test_node_belongs_to_the_call_whose_constants_it_takes() -> None:
    after = """g (float[2, 2] x) => (float[2, 2] y)
        <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}, float[2] bias = {1.0, 2.0}, float[2, 2] v_other = {5.0, 6.0, 7.0, 8.5}> {
        n1 = Gemm(x, w, bias) n2 = local.Fold(n1) y = local.Twice(n2, v_other) }"""
    found = carried(TWO_LAYERS, after, **CALLS)
    assert found["n1"] == [("a", "fused")]


def test_converted_values_belong_to_the_call_that_computes_them() -> None:
    before = """g (float[2, 2] x) => (float[2, 2] z)
        <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}, float[2, 2] v = {5.0, 6.0, 7.0, 8.0}> {
        m = MatMul(x, w) n = MatMul(m, v) z = Relu(n) }"""
    after = """g (float[2, 2] x) => (float[2, 2] z)
        <int8[2, 2] w_q = {1, 2, 3, 4}, int8[2, 2] v_q = {5, 6, 7, 8}, float s = {0.5}, float t = {0.25}> {
        x_q = QuantizeLinear(x, s) m_q = local.QMatMul(x_q, w_q, s) n_q = local.QMatMul(m_q, v_q, t)
        n = DequantizeLinear(n_q, t) z = Relu(n) }"""
    found = carried(before, after, m="a", n="b", z="c")
    assert {key: [call for call, _ in origins] for key, origins in found.items()} == {
        "x_q": ["a"],
        "m_q": ["a"],
        "n_q": ["b"],
        "n": ["b"],
        "z": ["c"],
    }


def test_value_laid_out_as_before_belongs_to_its_call() -> None:
    head = "g (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}"
    after = f"""{head}, float[2, 2] rounded = {{1.0, 2.0, 3.0, 4.5}}> {{
        token = local.Relu(x) cast_r = local.Reorder(token) y = MatMul(cast_r, rounded) }}"""
    found = carried(f"{head}> {{ r = Relu(x) y = MatMul(r, w) }}", after, r="a", y="b")
    assert found == {"token": [("a", "fused")], "cast_r": [("a", "fused")], "y": [("b", "fused")]}


def test_requantized_value_belongs_to_the_call_that_computes_it() -> None:
    head = "g (float[2] x) => (float[2] y) <float scale = {0.5}> { h = Neg(x)"
    after = f"{head} r = Exp(h) q = QuantizeLinear(r, scale) s = DequantizeLinear(q, scale) y = Relu(s) }}"
    found = carried(f"{head} s = Exp(h) y = Relu(s) }}", after, h="a", s="b", y="c")
    assert found["q"] == found["s"] == [("b", "fused")]
    assert found["y"] == [("c", "traced")]


def test_scales_of_a_constant_make_no_node_compute_more() -> None:
    before = """g (float[2] x) => (float[2] y) <float[2] s = {2.0, 3.0}> {
        q = Mul(x, s) n = Neg(x) k = Mul(n, s) m = Div(q, k) y = Relu(m) }"""
    after = """g (float[2] x) => (float[2] y) <uint8[2] s_quantized = {2, 3}, float s_scale = {0.5}, float t = {0.25}> {
        x_q = QuantizeLinear(x, t) q_q = local.QMul(x_q, s_quantized, s_scale) n_q = local.QNeg(x_q)
        k_q = local.QMul(n_q, s_quantized, s_scale) m_q = local.QDiv(q_q, k_q) m = DequantizeLinear(m_q, t)
        y = Relu(m) }"""
    found = carried(before, after, q="a", n="b", k="b", m="c", y="d")
    assert [found[key] for key in ("q_q", "k_q", "m_q")] == [[(call, "fused")] for call in "abc"]


def test_scale_named_after_a_value_is_not_that_value() -> None:
    before = """g (float[2] x) => (float[2] y) {
        h_1 = Exp(x) h_2 = Neg(h_1) h_3 = Mul(h_2, h_1) y = Relu(h_3) }"""
    after = """g (float[2] x) => (float[2] y)
        <float h_1_scale = {0.5}, float h_2_scale = {0.25}, float h_3_scale = {0.75}> {
        h_1 = Exp(x) one = QuantizeLinear(h_1, h_1_scale) two = local.Neg(one, h_1_scale, h_2_scale)
        three = local.Mul(two, h_2_scale, one, h_1_scale, h_3_scale) h_3 = DequantizeLinear(three, h_3_scale)
        y = Relu(h_3) }"""
    found = carried(before, after, h_1="a", h_2="b", h_3="c", y="d")
    assert [found[key] for key in ("two", "three")] == [[("b", "fused")], [("c", "fused")]]


def test_value_named_after_a_constant_is_not_that_constant() -> None:
    head = "g (float[2] x) => (float[2] y) <float[2] k = {2.0, 3.0}>"
    before = f"{head} {{ m = Mul(x, k) n = Add(m, k) y = Exp(n) }}"
    found = carried(before, f"{head} {{ k_out = local.Scale(x, k) y = local.Act(k_out) }}", m="a", n="b", y="c")
    assert {call for call, _ in found["k_out"]} == {call for call, _ in found["y"]} == {"a", "b", "c"}


def test_constant_with_a_longer_number_is_another_constant() -> None:
    before = """g (float[2, 2] x) => (float[2, 2] y)
        <float[2, 2] w_1 = {1.0, 2.0, 3.0, 4.0}, float[2, 2] v = {5.0, 6.0, 7.0, 8.0}> {
        m = MatMul(x, v) n = MatMul(m, w_1) y = Relu(n) }"""
    after = """g (float[2, 2] x) => (float[2, 2] y)
        <float[2, 2] w_12 = {5.0, 6.0, 7.0, 9.0}, float[2, 2] w_13 = {1.0, 2.0, 3.0, 5.0}> {
        p = local.MatMul(x, w_12) q = local.MatMul(p, w_13) y = Relu(q) }"""
    found = carried(before, after, m="a", n="b", y="c")
    assert [found[key] for key in ("p", "q")] == [[("a", "fused")], [("b", "fused")]]


def test_computed_weight_tells_which_call_consumes_it() -> None:
    before = """g (float[2, 2] x) => (float[2, 2] z)
        <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}> {
        u = Exp(x) h = Relu(u) v = Neg(w) m = MatMul(h, v) y = Add(m, u) z = Sqrt(y) }"""
    after = """g (float[2, 2] x) => (float[2, 2] z)
        <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}, float s = {0.5}, float t = {0.25}> {
        u = Exp(x) u_q = QuantizeLinear(u, s) v = Neg(w) v_q = QuantizeLinear(v, s) m_q = local.QMatMul(u_q, v_q, s)
        y_q = local.QAdd(m_q, u_q, t) y = DequantizeLinear(y_q, t) z = Sqrt(y) }"""
    found = carried(before, after, u="a", h="b", v="c", m="c", y="d", z="d")
    assert [call for call, _ in found["m_q"]] == ["b", "c"]
    assert [call for call, _ in found["y_q"]] == ["d"]


def test_quantized_constant_belongs_to_the_call_that_computes_it() -> None:
    before = """g (float[2, 2] x) => (float[2, 2] z)
        <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}, int64[2] i = {1, 0}> {
        b = Gather(w, i) t = Transpose(b) y = Add(x, t) z = Sqrt(y) }"""
    after = """g (float[2, 2] x) => (float[2, 2] z)
        <int8[2, 2] w_quantized = {1, 2, 3, 4}, int64[2] i = {1, 0}, float s = {0.5}> {
        b_quantized = Gather(w_quantized, i) t_quantized = Transpose(b_quantized)
        y_q = local.QAdd(x, t_quantized, s) y = DequantizeLinear(y_q, s) z = Sqrt(y) }"""
    found = carried(before, after, b="a", t="b", y="b", z="b")
    assert [call for call, _ in found["b_quantized"]] == ["a"]
    assert [call for call, _ in found["t_quantized"]] == ["b"]


def test_transpose_pushed_behind_an_addition_keeps_its_call() -> None:
    before = """g (float[2, 3] x) => (float[3, 2] y, float[3, 2] z) {
        u = Relu(x) t = Transpose<perm = [1, 0]>(u) z = Neg(t)
        e = Exp(u) f = Transpose<perm = [1, 0]>(e) y = Add(t, f) }"""
    after = """g (float[2, 3] x) => (float[3, 2] y, float[3, 2] z) {
        u = Relu(x) t = Transpose<perm = [1, 0]>(u) z = Neg(t)
        e = Exp(u) n = Add(u, e) y = Transpose<perm = [1, 0]>(n) }"""
    found = carried(before, after, u="a", t="a", z="b", e="c", f="c", y="c")
    assert found["n"] == found["y"] == [("c", "fused")]


def test_prefix_on_every_name_keeps_all_origins() -> None:
    weight = ", ".join(f"{i}.0" for i in range(1, 401))
    before = (
        f"g (float[20, 20] x) => (float[20, 20] y) <float[20, 20] w = {{{weight}}}> {{ m = MatMul(x, w) y = Relu(m) }}"
    )
    after = before.replace("x", "p_x").replace("m ", "p_m ").replace("(m)", "(p_m)").replace("w", "p_w")
    after = after.replace("Rep_xu", "Relu").replace("p_y", "y")
    found = carried(before, after, m="a", y="b")
    assert found["p_m"] == [("a", "traced")]
    assert found["y"] == [("b", "traced")]


def test_prefix_hides_no_name_behind_a_rewritten_node() -> None:
    before = """g (float[2, 2] x) => (float[2, 2] y)
        <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}, float[2, 2] v = {5.0, 6.0, 7.0, 8.0}> {
        m = MatMul(x, w) g = local.Act(m) n = MatMul(g, v) y = Relu(n) }"""
    after = """g (float[2, 2] p_x) => (float[2, 2] p_y)
        <float[2, 2] p_w = {1.0, 2.0, 3.0, 4.0}, float[2, 2] p_v = {5.0, 6.0, 7.0, 8.0}> {
        p_m = MatMul(p_x, p_w) e = Erf(p_m) p_g = Mul(p_m, e) p_n = MatMul(p_g, p_v) p_y = Relu(p_n) }"""
    found = carried(before, after, m="a", g="b", n="c", y="d")
    assert found["e"] == found["p_g"] == [("b", "fused")]
    assert found["p_n"] == [("c", "traced")]


def test_what_a_tool_adds_around_the_model_is_the_roots() -> None:
    before = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    after = "g (float[2] raw) => (float[2] y, float[2] score) { x = Neg(raw) y = Relu(x) score = Sigmoid(y) }"
    assert carried(before, after, y="a")["score"] == [("", "fused")]


CONVOLUTIONS = """g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
    <float[2, 2, 1, 1] w = {1.0, 2.0, 3.0, 4.0}, float[2, 2, 1, 1] v = {5.0, 6.0, 7.0, 8.0}> {
    c = Conv(x, w) r = Relu(c) p = MaxPool<kernel_shape = [1, 1]>(r) d = Conv(p, v) e = Add(d, p) y = Relu(e) }"""


def test_activation_named_in_an_attribute_belongs_to_the_fused_convolution() -> None:
    after = """g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
        <float[2, 2, 1, 1] n0 = {1.0, 3.0, 2.0, 4.0}, float[2, 2, 1, 1] n2 = {5.0, 7.0, 6.0, 8.0}> {
        n1 = local.Conv<activation = "Relu">(x, n0) n3 = local.MaxPool<kernel_shape = [1, 1]>(n1)
        n4 = local.Conv<activation = "Relu">(n3, n2, n3) y = local.ReorderOutput(n4) }"""
    found = carried(CONVOLUTIONS, after, c="a", r="b", p="c", d="d", e="d", y="d")
    assert [[call for call, _ in origins] for origins in found.values()] == [["a", "b"], ["c"], ["d"], ["d"]]


def test_constant_is_not_taken_for_one_of_a_shorter_name() -> None:
    before = """g (float[2] x) => (float[2] y) <float[2] h = {1.0, 2.0}> {
        h_1 = Exp(x) h_2 = Neg(h_1) h_3 = Sqrt(h_2) h_4 = Mul(h_3, h) y = Relu(h_4) }"""
    after = """g (float[2] x) => (float[2] y) <float[2] h = {1.0, 2.0}, float h_1_scale = {0.5}, int8 zero = {0}> {
        h_1 = Exp(x) h_1_q = QuantizeLinear(h_1, h_1_scale, zero) h_1_d = DequantizeLinear(h_1_q, h_1_scale, zero)
        h_2 = Neg(h_1_d) h_3 = Sqrt(h_2) y = local.MulRelu(h_3, h) }"""
    found = carried(before, after, h_1="a", h_2="b", h_3="c", h_4="d", y="d")
    assert found["h_1_q"] == found["h_1_d"] == [("b", "fused")]


def test_pooling_in_another_layout_has_its_own_call() -> None:
    before = """g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
        <float[2, 2, 1, 1] w = {1.0, 2.0, 3.0, 4.0}, float[2] bias = {1.0, 2.0}> {
        u = Exp(x) p = MaxPool<kernel_shape = [1, 1]>(u) c = Conv(p, w, bias) y = Add(c, u) }"""
    after = """g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
        <float[2, 2, 1, 1] n0 = {1.0, 3.0, 2.0, 4.0}, float[2] bias = {1.0, 2.0}> {
        u = Exp(x) n1 = local.ReorderInput(u) n2 = local.MaxPool<kernel_shape = [1, 1]>(n1)
        n3 = local.Conv(n2, n0, bias) c = local.ReorderOutput(n3) y = Add(c, u) }"""
    found = carried(before, after, u="a", p="b", c="c", y="d")
    assert {key: [call for call, _ in found[key]] for key in ("n2", "n3", "c")} == {
        "n2": ["b"],
        "n3": ["c"],
        "c": ["c"],
    }


LAYOUTS = """g (float[1, 4, 4, 2] x) => (float[1, 2, 4, 4] y)
    <float[2, 2, 1, 1] w = {1.0, 2.0, 3.0, 4.0}, float[2, 2, 1, 1] v = {5.0, 6.0, 7.0, 8.0}> {
    t = Transpose<perm = [0, 3, 1, 2]>(x) h = Conv<kernel_shape = [1, 1]>(t, w)
    p = Conv<kernel_shape = [1, 1]>(h, v) y = Add(p, h) }"""
IN_BLOCKS = """g (float[1, 4, 4, 2] x) => (float[1, 2, 4, 4] y)
    <float[2, 2, 1, 1] w_b = {1.0, 3.0, 2.0, 4.0}, float[2, 2, 1, 1] v_b = {5.0, 7.0, 6.0, 8.0}> {
    x_b = local.ReorderInput<channels_last = 1>(x)
    h_b = local.Conv<kernel_shape = [1, 1]>(x_b, w_b)
    p_b = local.Conv<kernel_shape = [1, 1]>(h_b, v_b, h_b) y = local.ReorderOutput(p_b) }"""
LAYOUT_CALLS = {"t": "a", "h": "b", "p": "c", "y": "d"}


def test_convolution_does_not_belong_to_transpose_that_became_a_reorder() -> None:
    found = carried(LAYOUTS, IN_BLOCKS, **LAYOUT_CALLS)
    assert found["x_b"] == [("a", "fused")]
    assert found["h_b"] == [("b", "fused")]


def test_convolution_that_takes_its_input_again_computes_the_sum() -> None:
    found = carried(LAYOUTS, IN_BLOCKS, **LAYOUT_CALLS)
    assert {call for call, _ in found["p_b"]} == {"c", "d"}
    assert found["y"] == [("d", "fused")]


def test_equal_constant_of_another_name_anchors_nothing() -> None:
    before = """g (float[2, 2] x) => (float[2, 2, 1] y) <int64[1] last = {-1}> {
        s = Softmax(x) e = Exp(s) u = Unsqueeze(e, last) m = Neg(u) y = Relu(m) }"""
    after = """g (float[2, 2] x) => (float[2, 2, 1] y) <int64[1] expanded_axes = {-1}> {
        top = ReduceMax(x, expanded_axes) d = Sub(x, top) p = Exp(d) sum = ReduceSum(p, expanded_axes) s = Div(p, sum)
        e = Exp(s) y = local.UnsqueezedRelu(e) }"""
    found = carried(before, after, s="a", e="b", u="c", m="c", y="d")
    assert all(found[key] == [("a", "fused")] for key in ("top", "d", "p", "sum", "s"))


def test_constant_that_was_folded_does_not_own_its_consumer() -> None:
    before = """g (float[2, 2] x) => (float[2, 2] y)
        <float[2, 2] table = {1.0, 2.0, 3.0, 4.0}, float[2, 2] w = {5.0, 6.0, 7.0, 8.0}, float[2] bias = {9.0, 10.0}> {
        n = Exp(table) m = MatMul(n, w) h = Add(m, bias) y = Mul(x, h) }"""
    after = """g (float[2, 2] x) => (float[2, 2] y)
        <float[2, 2] folded = {3.0, 7.0, 20.0, 55.0}, float[2, 2] w = {5.0, 6.0, 7.0, 8.0},
        float[2] bias = {9.0, 10.0}> {
        h = Gemm(folded, w, bias) y = Mul(x, h) }"""
    assert carried(before, after, n="a", m="b", h="b", y="c")["h"] == [("b", "fused")]


def test_activation_of_two_nodes_does_not_belong_to_its_consumer() -> None:
    before = """g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
        <float[2, 2, 1, 1] w = {1.0, 2.0, 3.0, 4.0}, float[2, 2, 1, 1] v = {5.0, 6.0, 7.0, 8.0},
        float[2] b = {1.0, 2.0}> {
        h = Conv(x, w) s = Sigmoid(h) u = Mul(h, s) p = Conv(u, v, b) q = Add(p, u) y = Relu(q) }"""
    after = """g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
        <float[2, 2, 1, 1] n0 = {1.0, 3.0, 2.0, 4.0}, float[2, 2, 1, 1] n1 = {5.0, 7.0, 6.0, 8.0},
        float[2] b = {1.0, 2.0}> {
        h_b = local.Conv(x, n0) u_b = local.QuickGelu(h_b) p_b = local.Conv<activation = "Relu">(u_b, n1, b, u_b)
        y = local.ReorderOutput(p_b) }"""
    found = carried(before, after, h="a", s="b", u="b", p="c", q="d", y="d")
    calls = {key: {call for call, _ in origins} for key, origins in found.items()}
    assert calls == {"h_b": {"a"}, "u_b": {"b"}, "p_b": {"c", "d"}, "y": {"d"}}


def test_operation_that_moved_before_a_transpose_anchors_its_consumers() -> None:
    before = """g (float[1, 4, 4, 4] x) => (float[1, 2, 4, 4] y, float[1, 2, 4, 4] z, float[1, 2, 4, 4] u)
        <float[2, 2, 1, 1] w = {1.0, 2.0, 3.0, 4.0}> {
        t = Transpose<perm = [0, 3, 1, 2]>(x) s0, s1 = Split<axis = 1, num_outputs = 2>(t) c = Conv(s1, w)
        g = Exp(c) y = Neg(g) z = Relu(g) u = Sqrt(s0) }"""
    after = """g (float[1, 4, 4, 4] x) => (float[1, 2, 4, 4] y, float[1, 2, 4, 4] z, float[1, 2, 4, 4] u)
        <float[2, 2, 1, 1] n0 = {1.0, 3.0, 2.0, 4.0}> {
        n1, n2 = Split<axis = 3, num_outputs = 2>(x) n3 = local.ReorderInput(n2) n4 = local.Conv(n3, n0) n5 = Exp(n4)
        g = local.ReorderOutput(n5) y = Neg(g) z = Relu(g)
        s0 = Transpose<perm = [0, 3, 1, 2]>(n1) u = Sqrt(s0) }"""
    found = carried(before, after, t="a", s0="a", c="b", g="c", y="d", z="d", u="d")
    calls = {key: {call for call, _ in found[key]} for key in ("n3", "n4", "n5", "g")}
    assert calls == {"n3": {"b"}, "n4": {"b"}, "n5": {"c"}, "g": {"c"}}


def test_convolution_with_padded_weights_has_its_own_call() -> None:
    before = """g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
        <float[2, 2, 1, 1] w = {1.0, 2.0, 3.0, 4.0}, float[2, 1, 1] scale = {5.0, 6.0}> {
        u = Exp(x) c = Conv<kernel_shape = [1, 1]>(u, w) r = Relu(c) m = Mul(scale, r) y = Add(u, m) }"""
    after = """g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
        <float[2, 2, 1, 1] n0 = {1.0, 3.0, 2.0, 4.0}, float[2, 1, 1, 1] n1 = {5.0, 6.5}> {
        u = Exp(x) n2 = local.ReorderInput(u) n3 = local.Conv<group = 8, kernel_shape = [1, 1]>(n2, n0) n4 = Relu(n3)
        n5 = local.Conv<group = 2>(n4, n1, , n2) y = local.ReorderOutput(n5) }"""
    found = carried(before, after, u="a", c="b", r="c", m="d", y="d")
    calls = {key: {call for call, _ in found[key]} for key in ("n2", "n3", "n4", "n5", "y")}
    assert calls == {"n2": {"b", "d"}, "n3": {"b"}, "n4": {"c"}, "n5": {"d"}, "y": {"d"}}


def test_two_node_activation_before_new_weights_keeps_its_call() -> None:
    before = """g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
        <float[2, 2, 1, 1] w = {1.0, 2.0, 3.0, 4.0}, float[2, 2, 1, 1] v = {5.0, 6.0, 7.0, 8.0}> {
        h = Conv(x, w) s = Sigmoid(h) u = Mul(h, s) p = Conv(u, v) y = Relu(p) }"""
    after = """g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
        <float[2, 2, 1, 1] n0 = {1.0, 3.0, 2.0, 4.0}, float[2, 2, 1, 1] n1 = {5.0, 7.0, 6.0, 8.0}> {
        h_b = local.Conv(x, n0) u_b = local.QuickGelu(h_b) p_b = local.Conv(u_b, n1) p = local.ReorderOutput(p_b)
        y = Relu(p) }"""
    found = carried(before, after, h="a", s="b", u="b", p="c", y="d")
    calls = {key: {call for call, _ in found[key]} for key in ("h_b", "u_b", "p_b", "p")}
    assert calls == {"h_b": {"a"}, "u_b": {"b"}, "p_b": {"c"}, "p": {"c"}}


def test_concatenation_known_by_its_consumer_alone_anchors_its_inputs() -> None:
    graph = """g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y)
        <float[2, 2, 1, 1] {w} = {{1.0, 2.0, 3.0, 4.0}}, float[2] b = {{1.0, 2.0}}, float[2] bias = {{3.0, 4.0}},
        float[2, 4, 1, 1] {v} = {{5.0, 6.0, 7.0, 8.0, 5.0, 6.0, 7.0, 8.0}}> {{ {nodes} y = Relu(p) }}"""
    # More nodes lie between the two inputs of the Concat than are searched for the one in which they meet.
    way = " ".join(f"n{i + 1} = Neg(n{i})" for i in range(70))
    before = f"""h = Conv(x, w, b) n0 = Neg(h) {way} s = Sigmoid(n70) u = Mul(n70, s) q = Concat<axis = 1>(h, u)
        p = Conv(q, v, bias)"""
    after = f"""h_b = local.Conv(x, c0, b) h = local.ReorderOutput(h_b) n0 = Neg(h) {way} r = local.ReorderInput(n70)
        u_b = local.QuickGelu(r) q_b = Concat<axis = 1>(h_b, u_b) p_b = local.Conv(q_b, c1, bias)
        p = local.ReorderOutput(p_b)"""
    tags = {**{f"n{i}": "d" for i in range(71)}, "h": "a", "s": "b", "u": "b", "q": "c", "p": "d", "y": "d"}
    found = carried(graph.format(w="w", v="v", nodes=before), graph.format(w="c0", v="c1", nodes=after), **tags)
    calls = {key: {call for call, _ in found[key]} for key in ("u_b", "q_b", "p_b")}
    assert calls == {"u_b": {"b"}, "q_b": {"c"}, "p_b": {"d"}}


def test_constant_that_became_a_computed_value_is_no_counterpart() -> None:
    head = "g (float[2] x, float[2] z) => (float[2] y, float[2] o) <float[2] k = {2.0, 3.0}> { r = Div(k, z) o = Exp(r)"
    before, after = f"{head} m = Mul(x, k) d = Div(m, z) y = Tanh(d) }}", f"{head} d = Mul(x, r) y = Tanh(d) }}"
    found = carried(before, after, r="c", o="c", m="a", d="b", y="d")
    assert [call for call, _ in found["d"]] == ["a", "b"]


def test_computed_constants_under_other_names_anchor() -> None:
    head = "g (float[2] x) => (float[2] y) <float[2] w = {1.5, 2.5}, float[2] k = {3.5, 4.5}>"
    before = f"{head} {{ c = Sqrt(w) s = MatMul(x, c) e = Exp(k) m = MatMul(s, e) y = Tanh(m) }}"
    after = f"{head} {{ n1 = Sqrt(w) n2 = local.Q(x, n1) n4 = Exp(k) n3 = local.Q(n2, n4) y = Tanh(n3) }}"
    found = carried(before, after, c="a", s="a", e="b", m="b", y="c")
    assert (found["n2"], found["n3"]) == ([("a", "fused")], [("b", "fused")])


def test_cancelled_pair_whose_name_the_producer_took_owns_it() -> None:
    head = "g (float[2, 3] x) => (float[2, 3] b, float[2, 3] y)"
    before = f"{head} {{ u = Relu(x) t = Transpose<perm = [1, 0]>(u) b = Transpose<perm = [1, 0]>(t) y = Exp(b) }}"
    found = carried(before, f"{head} {{ b = Relu(x) y = Exp(b) }}", u="a", t="b", b="c", y="d")
    assert [call for call, _ in found["b"]] == ["a", "b", "c"]


def test_operation_before_a_fused_sum_stays_its_calls() -> None:
    head = "g (float[2, 2] x) => (float[2, 2] y)"
    before = f"""{head} <float[2, 2] w = {{1.0, 2.0, 3.0, 4.0}}> {{
        h = Exp(x) r = Cos(x) s = Sigmoid(h) m = Mul(h, s) k = MatMul(m, w) y = Add(r, k) }}"""
    after = f"""{head} <float[2, 2] packed = {{1.0, 3.0, 2.0, 4.0}}> {{
        h = Exp(x) r = Cos(x) q = local.Silu(h) t = local.MatMul(q, packed, r) y = local.Unpack(t) }}"""
    found = carried(before, after, h="a", s="b", m="b", k="c", y="d")
    assert found["q"] == [("b", "fused")]
    assert sorted(found["t"]) == [("c", "fused"), ("d", "fused")]


def test_operand_of_two_fused_products_has_no_counterpart() -> None:
    head = "g (float[2, 2] x) => (float[2, 2] y)"
    before = f"""{head} <float[2, 2] w = {{1.0, 2.0, 3.0, 4.0}}> {{
        h = Exp(x) r = Cos(x) s = Sigmoid(h) m = Mul(h, s) k = MatMul(m, w) n = MatMul(k, w) y = Add(r, n) }}"""
    after = f"""{head} <float[2, 2] packed = {{1.0, 3.0, 2.0, 4.0}}> {{
        h = Exp(x) r = Cos(x) q = local.Silu(h) t = local.MatMul(q, packed, r) y = local.Unpack(t) }}"""
    found = carried(before, after, h="a", s="b", m="b", k="c", n="d", y="d")
    assert [call for call, _ in found["q"]] == [call for call, _ in found["t"]] == ["b", "c", "d"]


def test_weight_cast_to_the_type_of_an_activation_anchors() -> None:
    head = """g (float[2, 2] x) => (float[2, 2] y)
        <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}, float[2, 2] h, float[2, 2] k, float[2, 2] m, float[2, 2] c"""
    before = f"""{head}, float[2, 2] v = {{5.0, 6.0, 7.0, 8.0}}> {{
        h = Neg(x) k = CastLike(w, h) m = Mul(h, k) c = CastLike(w, m) n = Add(m, c) y = MatMul(n, v) }}"""
    after = f"""{head}, float[2, 2] v_q = {{5.0, 6.0, 7.0, 8.5}}, float s = {{0.5}}> {{
        h = Neg(x) k = CastLike(w, h) h_q = QuantizeLinear(h, s) k_q = QuantizeLinear(k, s) m_q = local.QMul(h_q, k_q)
        m = DequantizeLinear(m_q, s) c = CastLike(w, m) c_q = QuantizeLinear(c, s) n_q = local.QAdd(m_q, c_q)
        y_q = local.QMatMul(n_q, v_q) y = DequantizeLinear(y_q, s) }}"""
    found = carried(before, after, h="a", k="a", m="a", c="a", n="a", y="b")
    assert found["m_q"] == found["n_q"] == [("a", "fused")]
    assert found["y_q"] == [("b", "fused")]


def test_size_in_place_of_a_stored_one_is_its_consumers() -> None:
    head = "g (float[2, 2] x) => (float[2, 2] y)"
    before = f"{head} <int64[2] k = {{2, 1}}> {{ h = Neg(x) e = Expand(h, k) d = Abs(e) y = Tanh(d) }}"
    after = f"{head} {{ h = Neg(x) n0 = Shape(h) n1 = Expand(h, n0) n2 = local.Abs(n1) y = Tanh(n2) }}"
    found = carried(before, after, h="a", e="b", d="c", y="d")
    assert (found["n0"], found["n1"]) == ([("b", "fused")], [("b", "fused")])


def test_reshape_of_a_value_that_identity_gives_keeps_its_call() -> None:
    # onnxsim on nn.TransformerEncoder, unoptimized: a `Gemm` computes each linear layer, and a dropout is an Identity.
    weights = """float[2, 2] w = {1.0, 2.0, 3.0, 4.0}, float[2] b = {1.0, 2.0},
        float[2, 2] v = {5.0, 6.0, 7.0, 8.0}, float[2] c = {3.0, 4.0}"""
    before = f"""g (float[1, 2, 2] x) => (float[1, 2, 2] y) <{weights}, float[1, 2, 2] h, float[1, 2, 2] r> {{
        m = MatMul(x, w) h = Add(m, b) r = Relu(h)
        n = MatMul(r, v) k = Add(n, c) d = Identity(k) y = Exp(d) }}"""
    after = f"""g (float[1, 2, 2] x) => (float[1, 2, 2] y)
        <{weights}, int64[2] rows = {{2, 2}}, int64[3] whole = {{1, 2, 2}}, float[2, 2] h2, float[2, 2] r> {{
        x2 = Reshape(x, rows) h2 = Gemm(x2, w, b) r = Relu(h2)
        k2 = Gemm(r, v, c) k = Reshape(k2, whole) y = Exp(k) }}"""
    found = carried(before, after, m="a", h="a", r="", n="b", k="b", d="", y="")
    assert found["h2"] == [("a", "fused")]
    assert found["k2"] == found["k"] == [("b", "fused")]


def test_weight_of_a_replaced_operator_separates_two_fusions() -> None:
    before = """g (float[2, 2] x) => (float[2, 2] z)
        <float[2, 2] q = {1.0, 2.0, 3.0, 4.0}, float[2, 2] v = {5.0, 6.0, 7.0, 8.0}, float[2] b = {0.5, 1.5}> {
        m = MatMul(x, q) n = Softmax(m) o = MatMul(n, v) y = Add(o, b) z = Relu(y) }"""
    after = """g (float[2, 2] x) => (float[2, 2] z)
        <float[2, 2] packed = {1.0, 2.0, 3.0, 4.5}, float[2, 2] v = {5.0, 6.0, 7.0, 8.0}, float[2] b = {0.5, 1.5}> {
        h = local.Attention(x, packed) r = local.Reorder(h) g = Gemm(r, v, b) y = local.Reorder(g) z = Relu(y) }"""
    found = carried(before, after, m="a", n="a", o="b", y="b", z="c")
    assert [found[key] for key in "hrgyz"] == [
        [(call, evidence)] for call, evidence in zip("aabbc", ["fused"] * 4 + ["traced"], strict=True)
    ]


def test_quantized_input_belongs_to_the_reader_of_its_elements() -> None:
    before = """g (float[N, 2] x) => (float[N, 2] z)
        <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}> { n = Shape(x) m = MatMul(x, w) z = Reshape(m, n) }"""
    after = """g (float[N, 2] x) => (float[N, 2] z)
        <int8[2, 2] w_q = {1, 2, 3, 4}, float s = {0.5}> {
        q = QuantizeLinear(x, s) d = DequantizeLinear(q, s) e = DequantizeLinear(w_q, s) n = Shape(d) m = MatMul(d, e)
        z = Reshape(m, n) }"""
    found = carried(before, after, n="b", m="a", z="b")
    assert [call for key in "qdemnz" for call, _ in found[key]] == [*"aaaabb"]


def test_value_converted_for_its_shape_alone_belongs_to_its_reader() -> None:
    before = "g (float[N, 2] x) => (int64[2] n) { h = Relu(x) n = Shape(h) }"
    after = """g (float[N, 2] x) => (int64[2] n) <float s = {0.5}> {
        h = Relu(x) q = QuantizeLinear(h, s) d = DequantizeLinear(q, s) n = Shape(d) }"""
    found = carried(before, after, h="a", n="b")
    assert found["q"] == found["d"] == found["n"] == [("b", "fused")]


def test_size_that_became_a_constant_comes_together_with_nothing() -> None:
    # CLIP by TorchScript: onnxslim reshapes the input of each layer to the size that the model computes at its end.
    head = """g (float[3, 2, 2] x) => (float[2, 6] y)
        <float[2, 2] w = {1.0, 2.0, 3.0, 5.0}, float[2] b = {7.0, 8.0}, int64[2] wide = {2, 6}"""
    before = f"""{head}> {{
        h = MatMul(x, w) a = Add(h, b) r = Relu(a)
        axes = Shape<start = 2>(r) one = Constant<value_ints = [-1]>() size = Concat<axis = 0>(one, axes)
        z = Reshape(r, size) y = Reshape(z, wide) }}"""
    after = f"""{head}, int64[2] rows = {{-1, 2}}, int64[3] back = {{3, 2, 2}}> {{
        in = Reshape(x, rows) out = Gemm(in, w, b) a = Reshape(out, back) r = Relu(a) y = Reshape(r, wide) }}"""
    found = carried(before, after, h="a", a="a", r="b", axes="c", one="c", size="c", z="c", y="d")
    assert [found[key] for key in ("in", "out", "a")] == [[("a", "fused")]] * 3
