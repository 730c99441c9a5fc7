"""Sums up ONNX Runtime's profile by module call and class: `hierexport profile`.

    events ──read──> runs of kernels ──join──> nodes of the optimized graph ──carry──> calls ──sum──> Profile

1. `feeds`: the inputs.
2. `running`: one session that writes the profile and the optimized model.
3. `events`: the profile's events as nested kernels.
4. `joining`: the node of each kernel.
5. `rollup`, `figures`: the sums.
6. `text`, `viewers`: the output for people, programs, Perfetto and Model Explorer.
"""
