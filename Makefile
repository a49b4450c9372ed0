# Each target is one script; read the script to see what it does.
.PHONY: build test test-lsp test-torch test-torch-all public-scripts release test-install test-browser fuzz endure robustness licences vulnerabilities reproduce bench bench-explain accuracy model-types peft kernels brackets planning llm-tables handover messages web screenshots old-torch lint-cases
build: ; @scripts/build.sh
test:  ; @scripts/test.sh
test-lsp: ; @scripts/test-lsp.sh
test-torch: ; @scripts/test-torch.sh
test-torch-all: ; @scripts/test-torch-all.sh
test-browser: ; @scripts/test-browser.sh
fuzz:  ; @scripts/fuzz.sh
endure: ; @scripts/endure.sh
robustness: ; @scripts/robustness.sh
licences: ; @scripts/licences.sh
vulnerabilities: ; @scripts/vulnerabilities.sh
reproduce: ; @scripts/reproduce.sh
bench: ; @scripts/bench.sh
accuracy: ; @scripts/accuracy.sh
brackets: ; @scripts/brackets.sh
planning: ; @scripts/planning.sh
llm-tables: ; @scripts/llm-tables.sh
handover: ; @scripts/handover.sh
web:   ; @scripts/web.sh
screenshots: ; @scripts/screenshots.sh
messages: ; @scripts/messages.sh
bench-explain: ; @DIR=$(DIR) scripts/bench-explain.sh
old-torch: ; @scripts/old-torch-check.sh 2.1.2 2.4.1 2.6.0
public-scripts: ; @scripts/public-scripts.sh
model-types: ; @scripts/model-types.sh
peft: ; @scripts/peft.sh
kernels: ; @scripts/kernels.sh
release: ; @scripts/release.sh $(ARGS)
test-install: ; @scripts/test-install.sh
lint-cases: ; @scripts/lint-cases.sh
