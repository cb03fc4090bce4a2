.PHONY: run test test-long test-exhaustive test-gpu check generated bench mutation sbom demo-calibration

run: ## set up and serve on http://127.0.0.1:8000
	scripts/setup service
	.venv/bin/ckpt-serve

test: ## set up and run the default tests
	scripts/test

test-long: ## run the tests that take minutes
	scripts/test long

test-exhaustive: ## before a release, for an hour or two: all cases, new draws of each law, soaks, kills
	scripts/test exhaustive

test-gpu: ## run the tests that need a GPU, and print its rates
	scripts/test gpu

check: ## lint, types, imports, dependencies
	scripts/check

generated: ## write what is made of fields, flags and questions anew
	scripts/generate

bench: ## print speed ratios
	scripts/test benchmark

mutation: ## show which mutants of a room of sizing types and tests let pass: ROOM=frameworks
	scripts/mutation $(ROOM)

sbom: ## list the Python packages of both images, and their licences, in build/sbom
	scripts/setup all dev
	scripts/sbom service
	scripts/sbom agent

demo-calibration: ## calibrate a storage system whose limits are known (as root; minutes)
	scripts/demo-calibration
