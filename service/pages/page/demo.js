// Demo data: the service's own example of a benchmark run, repeated until a storage system becomes slower.

import { constant } from "./rest.js";
import { sent } from "./token.js";

const ROOT = "v1/storage-systems";
export const NAME = "demo";
const NUM_RUNS = 9;
const SLOWER = 1.5;

/** Store the demo storage system: runs with steady rates, and a last one that is slower. Raises Problems. */
export async function storeDemo() {
  const example = await constant("page/demo-run.json");
  await sent("POST", ROOT, { name: NAME, description: "Demo data, measured by nobody." });
  for (let number = 1; number <= NUM_RUNS; number += 1) {
    const times = number === NUM_RUNS ? SLOWER : 1 + 0.005 * (number % 3);
    await sent("POST", `${ROOT}/${NAME}/runs`, { ...example, run_id: `demo-${number}`, measurements: example.measurements.map((each) => slowed(each, times)) });
  }
  return NAME;
}

function slowed(measurement, times) {
  const longer = (seconds) => (Array.isArray(seconds) ? seconds.map(longer) : seconds * times);
  const { seconds, first_done_seconds, rank_seconds, bytes_per_second } = measurement;
  return {
    ...measurement,
    seconds: longer(seconds),
    first_done_seconds: longer(first_done_seconds),
    rank_seconds: longer(rank_seconds),
    bytes_per_second: bytes_per_second / times,
  };
}
