// A workgroup decodes ROWS sequences for up to STEPS tokens, with nothing between the tokens but barriers. Weights lie
// transposed, [K][N] in quads of four columns: thread by thread along N, so that every load of a warp is one stretch, and a
// thread keeps its sums to itself. What the layers hand on stays in workgroup memory; keys and values go to the cache.
// Every sum's order is a constant of the text: neither the slot nor the neighbours change a bit.
//
// Constants: THREADS, ROWS, STEPS, LAYERS, WIDTH_QUADS, COLUMNS, SPREADS, NARROW, WIDE (quads of a row), AREA, LORA,
// SLOTS, VOCABULARY, LOGIT_QUADS, HALF, and the offsets of decodeWholeLayout.ts, in quads.

/** The residual stream. */
var<workgroup> stream: array<vec4f, ROWS * WIDTH_QUADS>;
/** What the next product reads: the stream times a norm's gain, or queries, or what attention gives. */
var<workgroup> narrow: array<vec4f, ROWS * NARROW>;
/** Queries, keys and values; then SiLU·gate; then logits. */
var<workgroup> qkv: array<vec4f, ROWS * WIDE>;
/** Parts of sums on their way from the threads that made them to the one that adds them. */
var<workgroup> area: array<vec4f, AREA>;
var<workgroup> lora: array<vec4f, ROWS * LORA>;
var<workgroup> squares: array<f32, ROWS * WIDTH_QUADS>;
var<workgroup> spread: array<f32, ROWS * SPREADS>;
var<workgroup> queryNorm: array<vec4f, HEAD_WIDTH / 4u>;
var<workgroup> keyNorm: array<vec4f, HEAD_WIDTH / 4u>;
var<workgroup> slotOf: array<u32, ROWS>;
var<workgroup> began: array<u32, ROWS>;
var<workgroup> state: array<Slot, ROWS>;
/** Rows still open, and the longest of them. */
var<workgroup> situation: vec2u;

const NOTHING = 0xffffffffu;
const NOT_FINITE = 0xfffffffeu;

/** Of a slot: the cache's length follows the longest sequences of a run. */
fn positionsOfSlot() -> u32 {
  return arrayLength(&keys) / (LAYERS * SLOTS * KV_HEADS * (HEAD_WIDTH / 4u));
}

fn vectorAt(at: u32) -> vec4f {
  return bitcast<vec4f>(weights[at]);
}

/** Four rows of one column of the transposed head or embedding. */
fn embeddingOf(token: u32, quad: u32) -> vec4f {
  let column = token / 4u;
  let lane = token % 4u;
  var x: vec4f;
  if (HALF) {
    for (var i = 0u; i < 2u; i++) {
      let words = weights[EMBEDDING + (2u * quad + i) * EMBEDDING_COLUMNS + column];
      x[2u * i] = unpack2x16float(words[lane / 2u])[lane % 2u];
      x[2u * i + 1u] = unpack2x16float(words[2u + lane / 2u])[lane % 2u];
    }
    return x;
  }
  for (var i = 0u; i < 4u; i++) {
    x[i] = bitcast<f32>(weights[EMBEDDING + (4u * quad + i) * EMBEDDING_COLUMNS + column][lane]);
  }
  return x;
}

/** The stream of a row, and the input of the product behind the norm whose gain lies at `gain`. */
fn settle(row: u32, quad: u32, x: vec4f, gain: u32) {
  stream[row * WIDTH_QUADS + quad] = x;
  narrow[row * NARROW + quad] = x * vectorAt(gain + quad);
  squares[row * WIDTH_QUADS + quad] = dot(x, x);
}

fn gatherSpreads(thread: u32) {
  for (var i = thread; i < ROWS * SPREADS; i += THREADS) {
    spread[i] = (squares[4u * i] + squares[4u * i + 1u]) + (squares[4u * i + 2u] + squares[4u * i + 3u]);
  }
}

/** 1/√(mean(x²) + ε): a row's scale multiplies whole products of it. */
fn scaleOf(row: u32) -> f32 {
  var total = 0.0f;
  for (var i = 0u; i < SPREADS; i++) {
    total += spread[row * SPREADS + i];
  }
  return inverseSqrt(total / COLUMNS + EPSILON);
}

fn embed(thread: u32) {
  for (var i = thread; i < ROWS * WIDTH_QUADS; i += THREADS) {
    let row = i / WIDTH_QUADS;
    let quad = i % WIDTH_QUADS;
    settle(row, quad, embeddingOf(min(state[row].token, VOCABULARY - 1u), quad), INPUT_NORM);
  }
}

fn situationNow() -> vec2u {
  var result = vec2u();
  for (var row = 0u; row < ROWS; row++) {
    if (state[row].open != 0u) {
      result = vec2u(result.x + 1u, max(result.y, state[row].length));
    }
  }
  return result;
}

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  let firstRow = group.x * ROWS;
  let allRows = groups.x * ROWS;
  if (thread < ROWS) {
    let slot = rows[firstRow + thread].x;
    slotOf[thread] = slot;
    state[thread] = slots[slot];
    // The cache has no room for more.
    state[thread].open = select(0u, state[thread].open, state[thread].length <= positionsOfSlot() && slot < SLOTS);
    began[thread] = state[thread].open;
  }
  workgroupBarrier();
  var step = 0u;
  for (; step < STEPS; step++) {
    if (thread == 0u) {
      situation = situationNow();
    }
    let now = workgroupUniformLoad(&situation);
    if (now.x == 0u) {
      break;
    }
    embed(thread);
    workgroupBarrier();
    for (var layer = 0u; layer < LAYERS; layer++) {
      let frozen = layer * LAYER_STRIDE;
      let adapted = layer * ADAPTER_STRIDE;
      productQkv(frozen, adapted, 0u, thread);
      attend(layer, frozen, now.y, thread);
      productO(frozen, adapted, frozen + OUTPUT_NORM, thread);
      productGateUp(frozen, adapted, 0u, thread);
      let next = select(frozen + LAYER_STRIDE + INPUT_NORM, FINAL_NORM, layer + 1u == LAYERS);
      productDown(frozen, adapted, next, thread);
    }
    productHead(0u, 0u, 0u, thread);
    drawRows((step * allRows + firstRow), thread);
    workgroupBarrier();
  }
  for (var i = thread; i < (STEPS - step) * ROWS; i += THREADS) {
    drawn[(step + i / ROWS) * allRows + firstRow + i % ROWS] = vec4u(NOTHING, 0u, 0u, 0u);
  }
  if (thread < ROWS && began[thread] != 0u) {
    let slot = slotOf[thread];
    slots[slot].token = state[thread].token;
    slots[slot].length = state[thread].length;
    slots[slot].open = state[thread].open;
  }
}
