// What the page asks of REST. All arithmetic and all wording are there.

const PRESENTATION = "application/vnd.checkpoint-sizing.presentation+json";

/** What is wrong with a question, field by field, as a problem document tells it. */
export class Problems extends Error {
  constructor(document) {
    super(document.detail);
    this.errors = document.errors;
    this.status = document.status;
  }
}

/** A document that does not change while the service runs. */
export async function constant(path) {
  return (await answered(await fetch(path))).json();
}

/** The answer to a question, in words. Raises Problems, or what `fetch` raises. */
export async function ask(path, question, signal) {
  return (await answered(await post(path, question, PRESENTATION, signal))).json();
}

/** The answer to a question as a file of a media type. */
export async function file(path, question, mediaType) {
  return (await answered(await post(path, question, mediaType))).blob();
}

function post(path, question, accept, signal) {
  const headers = { "content-type": "application/json", accept };
  return fetch(path, { method: "POST", headers, body: JSON.stringify(question), signal });
}

/** A response, where it is an answer. Raises Problems. */
export async function answered(response) {
  if (response.ok) return response;
  const isProblem = response.headers.get("content-type") === "application/problem+json";
  throw isProblem ? new Problems(await response.json()) : new Error(`The service answers ${response.status}.`);
}
