// What the page asks of REST. All arithmetic and all wording are there.

const ACCEPTED = 202;
const PRESENTATION = "application/vnd.checkpoint-sizing.presentation+json";

/** What is wrong with a question, field by field, as a problem document tells it. */
export class Problems extends Error {
  /** `secondsToRetry` are those after which the same question may be answered; 0 where it never will. */
  constructor(document, secondsToRetry = 0) {
    super(document.detail);
    this.errors = document.errors;
    this.status = document.status;
    this.secondsToRetry = secondsToRetry;
  }
}

/** A document that does not change while the service runs. */
export async function constant(path) {
  return (await answered(await fetch(path))).json();
}

/** The answer to a question, in words. Raises Problems, or what `fetch` raises. */
export async function ask(path, question, signal) {
  return (await post(path, question, PRESENTATION, signal)).json();
}

/** The answer to a question as a file of a media type. */
export async function file(path, question, mediaType) {
  return (await post(path, question, mediaType)).blob();
}

async function post(path, question, accept, signal) {
  const headers = { "content-type": "application/json", accept };
  return settled(await fetch(path, { method: "POST", headers, body: JSON.stringify(question), signal }), { signal });
}

/** The answer in a response: at once, or of the job that the service makes of a question that takes long. */
export async function settled(response, request) {
  return response.status === ACCEPTED ? resultOf(response.headers.get("location"), request) : answered(response);
}

/** The result of a job, once it has ended; one that nobody waits for any more is cancelled. */
async function resultOf(job, request) {
  const cancel = () => fetch(job, { method: "DELETE", headers: request.headers });
  request.signal?.addEventListener("abort", cancel);
  try {
    while (!(await hasEnded(job, request)));
    return await answered(await fetch(`${job}/result`, request));
  } finally {
    request.signal?.removeEventListener("abort", cancel);
  }
}

/** Whether a job has ended; if not, after the time in which it may be asked for again. */
async function hasEnded(job, request) {
  const response = await answered(await fetch(job, request));
  if ((await response.json()).ended_at) return true;
  await new Promise((resume) => setTimeout(resume, 1000 * response.headers.get("retry-after")));
  return false;
}

/** A response, where it is an answer. Raises Problems. */
export async function answered(response) {
  if (response.ok) return response;
  const isProblem = response.headers.get("content-type") === "application/problem+json";
  throw isProblem ? new Problems(await response.json(), Number(response.headers.get("retry-after"))) : new Error(`The service answers ${response.status}.`);
}
