// The questions that one scenario answers, and where REST takes them. `without` are the blocks of the scenario that a
// question leaves out, as its answer brings its own; `lacks` says what must be typed before there is a question;
// `isFolded` folds the tables of the answer but for those that lead.

const NO_OFFER = "No offer has a value yet: type a known storage system, or bandwidths, and prices into the table, or paste cells of a spreadsheet.";

export const QUESTIONS = {
  answer: { path: "v1/sizings", isFolded: true, of: (scenario) => scenario },
  requirements: { path: "v1/requirements", of: (scenario) => scenario },
  layouts: { path: "v1/layouts", without: ["parallelism"], of: layouts },
  offers: { path: "v1/decisions", isFolded: true, without: ["storage", "costs"], of: decision, lacks: lacksOffer },
  techniques: { path: "v1/techniques", of: (scenario) => ({ scenario }) },
  simulation: { path: "v1/simulations", of: (scenario) => ({ scenario }) },
};

/** The scenario without degrees: they are what the search finds. */
function layouts(scenario) {
  return { scenario: rest(scenario, QUESTIONS.layouts) };
}

/** The purchase for the scenario, whose own storage and prices the offers take the place of. Empty columns at the end are no offers yet. */
function decision(scenario, purchase) {
  const offers = complete(purchase.offers);
  return { ...purchase, offers: offers.slice(0, 1 + offers.findLastIndex(hasValue)), workloads: [{ name: "the run", scenario: rest(scenario, QUESTIONS.offers) }] };
}

/** What must be typed while no column of the offers has a value. */
function lacksOffer(purchase) {
  return complete(purchase.offers).some(hasValue) ? "" : NO_OFFER;
}

/** Whether a block has a value; of an offer, one beside its name. */
function hasValue({ name, ...block }) {
  return Object.values(block).some((value) => (typeof value === "object" && value !== null ? hasValue(value) : ![null, undefined].includes(value)));
}

/** The offers without prices whose amount is not given: a table has a place for each. */
export function complete(offers) {
  return offers.map((offer) => ({ ...offer, prices: offer.prices?.filter((price) => "amount" in price) }));
}

function rest(scenario, { without }) {
  return Object.fromEntries(Object.entries(scenario).filter(([block]) => !without.includes(block)));
}

/** Whether a question takes the field at a path. */
export function takes({ without = [] }, path) {
  return !without.includes(path.split(".")[0]);
}
