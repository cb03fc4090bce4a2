// Files that people drop on a page, or choose.

import { element } from "./dom.js";

/** A place for files: `words` before the link, which chooses; `take` gets what is dropped or chosen. */
export function fileDrop({ id, words, choose, accept, multiple = false }, take) {
  const input = element("input", { type: "file", id, multiple, accept, onchange: (event) => take(event.target.files) });
  const drop = element("div", { class: "drop" }, words, element("label", { for: id }, choose), input);
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    take(event.dataTransfer.files);
  });
  return drop;
}

/** The content of a file, or of a part of one, in base64. */
export async function base64(content) {
  const reader = new FileReader();
  const read = new Promise((resolve, reject) => {
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
  });
  reader.readAsDataURL(await content);
  return read;
}
