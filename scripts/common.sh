# Sourced by the other scripts: what they share. The working directory is the repository's root afterwards.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '== %s\n' "$*" >&2; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

model_name=SmolLM2-135M-Instruct.Q4_1.gguf

# Where the demo's model lies: $RONDO_TEST_MODEL, else in the Python environment that install_dependencies makes. Prints
# nothing where there is none. The package is never imported: it would bring a whole inference engine along.
find_model() {
  if [ -n "${RONDO_TEST_MODEL:-}" ]; then
    printf '%s\n' "$RONDO_TEST_MODEL"
  elif [ -d build/venv ]; then
    find "$PWD/build/venv" -name "$model_name" -print -quit
  fi
}

# Where pip's NVRTC lies, for machines that have no other. Prints nothing where there is none.
find_nvrtc() {
  if [ -d build/venv ]; then find "$PWD/build/venv" -name 'libnvrtc.so*' -print -quit; fi
}

# Tells Rondo and its tests what install_dependencies found.
export_found() {
  local model nvrtc
  model=$(find_model)
  if [ -n "$model" ]; then export RONDO_TEST_MODEL=$model; fi
  nvrtc=$(find_nvrtc)
  if [ -n "$nvrtc" ] && [ -z "${RONDO_NVRTC_LIBRARY:-}" ]; then export RONDO_NVRTC_LIBRARY=$nvrtc; fi
}
