// Chooses what is shown by the address: nothing, `#MODEL`, `#MODEL/MODULE` or `#MODEL?CHECK`, each part encoded.

const main = document.querySelector("main");
const crumb = document.querySelector(".crumb");
const shown = { model: null, reveal: null, overview: null };

const decoded = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

const address = () => {
  const hash = location.hash.slice(1);
  const [, name, mark, rest] = /^([^/?]*)([/?]?)(.*)$/s.exec(hash);
  return { name: decoded(name), path: mark === "/" ? decoded(rest) : null, check: mark === "?" ? decoded(rest) : null };
};

const missing = (text) => h("p", { class: "note warning", role: "alert" }, text);

const showOverview = (name) => {
  shown.model = null;
  shown.overview ??= overview();
  main.replaceChildren(...(name ? [missing(`This report has no model ${name}.`)] : []), shown.overview);
  crumb.replaceChildren(h("span", { class: "dim" }, "report"));
  document.title = "hierexport";
};

const showModel = (model) => {
  if (shown.model === model) return;
  const [view, reveal] = modelView(model);
  Object.assign(shown, { model, reveal });
  main.replaceChildren(view);
  crumb.replaceChildren(h("a", { href: "#" }, "all models"), h("span", { class: "dim" }, " / "), h("span", {}, model.name));
  document.title = `${model.name} · hierexport`;
};

const show = () => {
  const { name, path, check } = address();
  const model = data.models.find((each) => each.name === name);
  const before = shown.model;
  if (!model) showOverview(name);
  else showModel(model);
  main.querySelector(":scope > .note")?.scrollIntoView();
  if (shown.model !== before || (!model && before)) {
    scrollTo(0, 0);
    main.querySelector("h1").focus({ preventScroll: true });
  }
  if (model && path !== null && !shown.reveal(path)) main.prepend(missing(`${model.name} has no module ${path}.`));
  if (model && check !== null) {
    const section = main.querySelector(`[data-checks~="${data.columns.indexOf(check)}"]`);
    section?.scrollIntoView();
    section?.focus({ preventScroll: true });
  }
};

const dark = matchMedia("(prefers-color-scheme: dark)");
const stored = {
  get: () => {
    try {
      return localStorage.getItem("hierexport-theme");
    } catch {
      return null;
    }
  },
  set: (theme) => {
    try {
      localStorage.setItem("hierexport-theme", theme);
    } catch {
      // A page without storage forgets the choice.
    }
  },
};

const themeButton = document.getElementById("theme");
const paint = (theme) => {
  document.documentElement.dataset.theme = theme;
  themeButton.textContent = theme === "dark" ? "Light" : "Dark";
  themeButton.setAttribute("aria-label", `Use the ${theme === "dark" ? "light" : "dark"} colours`);
};
paint(stored.get() ?? (dark.matches ? "dark" : "light"));
dark.addEventListener("change", () => stored.get() ?? paint(dark.matches ? "dark" : "light"));
themeButton.addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  paint(theme);
  stored.set(theme);
});

document.addEventListener("keydown", (event) => {
  const search = document.querySelector("#search, #filter");
  if (event.key === "/" && search && !event.target.closest("input, textarea")) {
    event.preventDefault();
    search.focus();
  }
});
addEventListener("hashchange", show);
// A link to where one is already, but has scrolled away from.
document.addEventListener("click", (event) => {
  if (event.target.closest("a")?.getAttribute("href") === location.hash) show();
});
show();
