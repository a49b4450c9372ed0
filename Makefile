# Each target is one script; read the script to see what it does.
.PHONY: build test bench accuracy web screenshots
build: ; @scripts/build.sh
test:  ; @scripts/test.sh
bench: ; @scripts/bench.sh
accuracy: ; @scripts/accuracy.sh
web:   ; @scripts/web.sh
screenshots: ; @scripts/screenshots.sh
