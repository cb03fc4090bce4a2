// The questions that one scenario answers, and where REST takes them. `without` are the blocks of the scenario that a
// question leaves out, as its answer brings its own.

export const QUESTIONS = {
  answer: { path: "v1/sizings", of: (scenario) => scenario },
  requirements: { path: "v1/requirements", of: (scenario) => scenario },
  layouts: { path: "v1/layouts", without: ["parallelism"], of: layouts },
  offers: { path: "v1/decisions", without: ["storage", "costs"], of: decision },
  techniques: { path: "v1/techniques", of: (scenario) => ({ scenario }) },
  simulation: { path: "v1/simulations", of: (scenario) => ({ scenario }) },
};

/** The scenario without degrees: they are what the search finds. */
function layouts(scenario) {
  return { scenario: rest(scenario, QUESTIONS.layouts) };
}

/** The purchase for the scenario, whose own storage and prices the offers take the place of. */
function decision(scenario, purchase) {
  return { ...purchase, offers: complete(purchase.offers), workloads: [{ name: "the run", scenario: rest(scenario, QUESTIONS.offers) }] };
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
