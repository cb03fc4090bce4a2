// Who changed what and when, for admins. The address holds the filters.

import { element } from "./dom.js";
import { demoMark, emptyState } from "./empty.js";
import { heading, listing, moment } from "./listing.js";
import { stored } from "./token.js";

export const TITLE = "Audit log";
const FILTERS = { token: "Token", action: "Action, or its start", subject: "Subject, or its start", since: "Since (UTC)", before: "Before (UTC)" };
const TIMES = ["since", "before"];
const COLUMNS = [{ label: "When" }, { label: "Token", kind: "words" }, { label: "Action" }, { label: "Subject", kind: "words" }, { label: "Request", kind: "id" }];

/** The entries that the filters in the address want, page after page. */
export async function content(fragment, { visiting, attempt }) {
  if (visiting?.scope !== "admin") return [...heading(TITLE, ""), withoutToken()];
  const wanted = new URLSearchParams(fragment);
  const place = element("div", {});
  await entries(wanted, [], place, attempt);
  return [
    ...heading(TITLE, "Who changed what and when, the newest first. The request stands in the log of the service, too."),
    filters(wanted),
    place,
  ];
}

const TOKEN = "ckpt-serve token create --name auditor --scope admin";
const EXAMPLE = [
  { at: "2026-01-05T08:30:00Z", token: "night-bench", action: "create", subject: "run 20260105T081500Z-1a2b3c", request_id: "6f3c0a41b2d94e57" },
  { at: "2026-01-04T16:02:00Z", token: "alice", action: "withdraw", subject: "run 20260104T020000Z-4d5e6f", request_id: "b81d7c02ffa94c30" },
  { at: "2026-01-04T09:12:00Z", token: null, action: "create", subject: "token alice", request_id: null },
];

/** What an admin would see: the command for a token, and an example on request. */
function withoutToken() {
  const place = element("div", {});
  const load = () => place.replaceChildren(demoMark("Entries that nobody made."), listing("", COLUMNS, EXAMPLE.map(row)));
  const says = "It shows three entries that nobody made.";
  return element("div", {}, emptyState("The audit log needs a token with scope admin. The command creates one; enter it below.", TOKEN, { label: "Show a demo", says, load }), place);
}

/** Show the entries `known` and those of the next page after the cursor `next`. */
async function entries(wanted, known, place, attempt, next) {
  const asked = new URLSearchParams([...wanted, ...(next ? [["cursor", next]] : [])]);
  const found = await stored(`v1/audit-log?${asked}`);
  const all = [...known, ...found.items];
  const more = () => attempt(() => entries(wanted, all, place, attempt, found.next));
  place.replaceChildren(
    all.length ? listing("", COLUMNS, all.map(row)) : emptyState("No change is like that. Change the filters above; every change by REST and at the terminal is logged, such as:", TOKEN),
    found.next ? element("button", { type: "button", onclick: more }, "Earlier changes") : "",
  );
}

function row({ at, token, action, subject, request_id }) {
  return [moment(at), token ?? "at the terminal", action, subject, request_id ?? ""];
}

function filters(wanted) {
  const inputs = Object.entries(FILTERS).map(([name, label]) => {
    const type = TIMES.includes(name) ? "datetime-local" : "text";
    const value = (wanted.get(name) ?? "").replace(/Z$/, "");
    return element("label", {}, label, element("input", { name, type, value, autocomplete: "off" }));
  });
  const onsubmit = (event) => {
    event.preventDefault();
    const given = [...new FormData(event.target)].filter(([, value]) => value !== "");
    const asked = given.map(([name, value]) => [name, TIMES.includes(name) ? `${value}Z` : value.trim()]);
    location.hash = encodeURIComponent(new URLSearchParams(asked));
  };
  return element("form", { onsubmit, class: "filters", "aria-label": "Filters" }, inputs, element("button", { type: "submit" }, "Show"));
}
