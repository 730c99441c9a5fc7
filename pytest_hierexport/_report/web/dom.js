// Makes elements and writes numbers. Text is only ever set as text: names of a model may hold any character.

const h = (tag, properties = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key.startsWith("--")) element.style.setProperty(key, value);
    else if (key === "style") Object.assign(element.style, value);
    else if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
};

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

const count = (number) => whole.format(number);
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
const brief = (number) => (number < 10000 ? whole.format(number) : short.format(number));
const percent = (part, all) => (all ? `${((100 * part) / all).toFixed(part === all ? 0 : 1)} %` : "–");

const size = (bytes) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
};

const duration = (seconds) => {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  const rest = Math.round(seconds) % 60;
  if (minutes < 10) return `${minutes}:${String(rest).padStart(2, "0")} min`;
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")} h`;
};

const say = (text) => {
  document.getElementById("said").textContent = text;
};

const copied = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without the permission, or in a page that is not secure: the older way.
    const area = h("textarea", { class: "unseen" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
};

const copyButton = (label, text) => {
  const button = h("button", { type: "button", class: "copy" }, label);
  button.addEventListener("click", async () => {
    await copied(typeof text === "function" ? text() : text);
    button.textContent = "Copied";
    say("Copied");
    setTimeout(() => (button.textContent = label), 1500);
  });
  return button;
};

const choices = (label, options, chosen, choose) => {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "data-value": value, "aria-pressed": String(value === chosen) }, text),
  );
  const group = h("div", { class: "choices", role: "group", "aria-label": label }, buttons);
  group.choose = (value) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
    choose(value);
  };
  for (const button of buttons) button.addEventListener("click", () => group.choose(button.dataset.value));
  return group;
};
