// Elements of the page. Text only ever becomes text: what a stranger wrote stays inert.

/** An element with attributes (or listeners: `onclick`) and children, which are elements or texts. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== ""));
  return made;
}

/** The element of that id. */
export function byId(id) {
  return document.getElementById(id);
}

/** A text in which no figure is parted from its unit at the end of a line, as on printed pages. */
export function unbroken(text) {
  return text.replace(/(?<=\d) (?=(?:%|s|ms|min|h|days|x|[kMGTPE]?i?B(?:\/s)?)(?!\w))/g, "\u00a0");
}

/** A list of sentences under a title; nothing where there are none. */
export function sentences(title, texts, kind) {
  if (!texts.length) return "";
  const list = element("ul", {}, texts.map((text) => element("li", {}, unbroken(text))));
  return element("section", { class: kind }, title ? element("h2", {}, title) : "", list);
}

/** Offer content as a file to keep. */
export function download(name, content) {
  const address = URL.createObjectURL(content);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
