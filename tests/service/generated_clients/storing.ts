// Sizes, stores, publishes and is refused, by the types that openapi-typescript makes of the OpenAPI document.
import { readFileSync } from "node:fs";

import createClient from "openapi-fetch";

import type { components, paths } from "./schema.js";

const [address, token, resultFile] = process.argv.slice(2) as [string, string, string];
const client = createClient<paths, "application/json" | "application/problem+json">({ baseUrl: address, headers: { authorization: `Bearer ${token}` } });
const scenario: components["schemas"]["Scenario"] = {
  model: { preset: "llama-3.1-8b" },
  parallelism: { data: 8 },
  checkpoint: { interval_seconds: "30min" },
};

function good<T>(found: { data?: T; error?: unknown }): T {
  if (found.data === undefined) throw new Error(JSON.stringify(found.error));
  return found.data;
}

const report = good(await client.POST("/v1/sizings", { body: scenario }));
const saved = good(await client.POST("/v1/scenarios", { body: { name: "of TypeScript", scenario } }));
const changes = good(
  await client.GET("/v1/scenarios/{scenario_id}/changes", { params: { path: { scenario_id: saved.id } } }),
);
good(await client.POST("/v1/storage-systems", { body: { name: "typescript", description: "Lustre" } }));
const result: components["schemas"]["BenchmarkResult"] = JSON.parse(readFileSync(resultFile, "utf8"));
const run = good(
  await client.POST("/v1/storage-systems/{name}/runs", { params: { path: { name: "typescript" } }, body: result }),
);
const page = good(
  await client.GET("/v1/storage-systems/{name}/runs", {
    params: { path: { name: "typescript" }, query: { engine: "torch-save", limit: 5 } },
  }),
);
const refused = await client.POST("/v1/sizings", { body: { model: { preset: "llama-3.1-8b" }, parallelism: { tensor: 0 } } });

console.log(
  JSON.stringify({
    total_bytes: report.checkpoint.total_bytes,
    saved: saved.id,
    changed: changes.figures.length,
    published: run.run_id,
    listed: page.items.map((each) => each.measurements[0]?.bytes_per_second),
    refused: [refused.error?.status, refused.error?.code, refused.error?.errors[0]?.field],
  }),
);
