// Rules about where prime-rl runs: nodes, GPUs, and the ways between them.

import { isTable } from '../../../configs/path.ts'
import { at, broken, has, NOW, number, type Rule, THEN } from './rule.ts'

const LAUNCHERS_OWN = /^(CUDA_VISIBLE_DEVICES|PRL_RUN_\w*|WANDB_RUN_ID|WANDB_SHARED_\w*)$/
const COMPONENTS = ['', 'trainer.', 'orchestrator.', 'inference.']

export const MACHINE_RULES: Rule[] = [
  {
    id: 'nodes-need-slurm',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.validate_deployment',
    example: { deployment: { type: 'multi_node', num_train_nodes: 2, num_infer_nodes: 1 }, inference: {} },
    check: (table) =>
      at(table, 'deployment.type') === 'multi_node' && !has(table, 'slurm')
        ? broken(
            'deployment.type',
            'deployment.type = "multi_node" needs a [slurm] table: several nodes are only started by Slurm.',
          )
        : null,
  },
  {
    id: 'inference-nodes',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.validate_deployment',
    example: { deployment: { type: 'multi_node', num_train_nodes: 1, num_infer_nodes: 1 }, slurm: {} },
    check(table) {
      if (at(table, 'deployment.type') !== 'multi_node') return null
      const nodes = at(table, 'deployment.num_infer_nodes')
      if (nodes === 0 && has(table, 'inference') && !has(table, 'trainer.data.fake'))
        return broken('deployment.num_infer_nodes', 'deployment.num_infer_nodes = 0 leaves no node for [inference].')
      return typeof nodes === 'number' && nodes > 0 && !has(table, 'inference')
        ? broken('deployment.num_infer_nodes', `deployment.num_infer_nodes = ${nodes} needs an [inference] table.`)
        : null
    },
  },
  {
    id: 'a-router-between-nodes',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.validate_multi_node_requires_router',
    example: {
      deployment: { type: 'multi_node', num_train_nodes: 1, num_infer_nodes: 1 },
      slurm: {},
      inference: { router: null },
    },
    check(table) {
      const router = at(table, 'inference.router')
      return at(table, 'deployment.type') === 'multi_node' && (router === null || router === 'None')
        ? broken(
            'inference.router',
            'Several nodes need the router in front of their engines; leave inference.router out.',
          )
        : null
    },
  },
  {
    id: 'islands-of-nodes',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.auto_setup_deployment',
    example: {
      deployment: { type: 'multi_node', num_train_nodes: 3, num_infer_nodes: 1, nodes_per_fsdp_group: 2 },
      slurm: {},
      inference: {},
    },
    check(table) {
      const [nodes, group] = [at(table, 'deployment.num_train_nodes'), at(table, 'deployment.nodes_per_fsdp_group')]
      return typeof nodes === 'number' && typeof group === 'number' && nodes % group !== 0
        ? broken(
            'deployment.nodes_per_fsdp_group',
            `deployment.num_train_nodes = ${nodes} cannot be split into groups of nodes_per_fsdp_group = ${group}.`,
          )
        : null
    },
  },
  {
    id: 'gpus-of-a-node',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: SingleNodeDeploymentConfig.validate_gpu_count',
    example: { deployment: { gpus_per_node: 4, num_train_gpus: 3, num_infer_gpus: 2 } },
    check(table) {
      if (at(table, 'deployment.type') === 'multi_node') return null
      const [train, infer] = [
        number(table, 'deployment.num_train_gpus', 1),
        number(table, 'deployment.num_infer_gpus', 1),
      ]
      const node = number(table, 'deployment.gpus_per_node', 8)
      return train + infer > node
        ? broken(
            'deployment.gpus_per_node',
            `deployment.num_train_gpus = ${train} and deployment.num_infer_gpus = ${infer} are more than deployment.gpus_per_node = ${node}.`,
          )
        : null
    },
  },
  {
    id: 'inference-in-whole-groups',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.auto_setup_deployment',
    example: { deployment: { num_infer_gpus: 3 }, inference: { vllm: { tensor_parallel_size: 2 } } },
    check(table) {
      if (at(table, 'deployment.type') === 'multi_node' || !has(table, 'inference')) return null
      const gpus = number(table, 'deployment.num_infer_gpus', 1)
      const parallel = number(table, 'inference.vllm.tensor_parallel_size', 1)
      return gpus % parallel !== 0
        ? broken(
            'inference.vllm.tensor_parallel_size',
            `deployment.num_infer_gpus = ${gpus} cannot be split into groups of inference.vllm.tensor_parallel_size = ${parallel}.`,
          )
        : null
    },
  },
  {
    id: 'nccl-needs-two-gpus',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.validate_enough_devices_for_nccl',
    example: { weight_broadcast: { type: 'nccl' }, deployment: { num_train_gpus: 1, num_infer_gpus: 0 } },
    check(table) {
      if (at(table, 'weight_broadcast.type') !== 'nccl' || at(table, 'deployment.type') === 'multi_node') return null
      const gpus = number(table, 'deployment.num_train_gpus', 1) + number(table, 'deployment.num_infer_gpus', 1)
      return gpus < 2
        ? broken('weight_broadcast.type', 'weight_broadcast.type = "nccl" needs two GPUs at least.')
        : null
    },
  },
  {
    id: 'lockstep-over-nccl',
    targets: THEN,
    source: 'src/prime_rl/trainer/rl/config.py: RLTrainerConfig.validate_weight_broadcast_type',
    example: { max_async_level: 2, weight_broadcast: { type: 'nccl' } },
    check: (table) =>
      at(table, 'weight_broadcast.type') === 'nccl' && number(table, 'max_async_level', 1) !== 1
        ? broken('max_async_level', 'weight_broadcast.type = "nccl" needs max_async_level = 1.')
        : null,
  },
  {
    id: 'quantised-transfer',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.validate_quantize_in_weight_transfer',
    example: { weight_broadcast: { type: 'filesystem', quantize_in_weight_transfer: true } },
    check: (table) =>
      at(table, 'weight_broadcast.quantize_in_weight_transfer') === true &&
      (at(table, 'weight_broadcast.type') !== 'nccl' || at(table, 'trainer.model.impl') !== 'custom')
        ? broken(
            'weight_broadcast.quantize_in_weight_transfer',
            'weight_broadcast.quantize_in_weight_transfer needs type = "nccl" and trainer.model.impl = "custom".',
          )
        : null,
  },
  {
    id: 'one-way-for-rollouts',
    targets: NOW,
    source: 'prime-rl-configs/configs/rl.py: RLConfig.auto_setup_rollout_transport',
    example: { trainer: { rollout_transport: { type: 'filesystem' } } },
    check(table) {
      const shared = at(table, 'rollout_transport.type') ?? 'zmq'
      const [reads, sends] = ['trainer', 'orchestrator'].map(
        (each) => at(table, `${each}.rollout_transport.type`) ?? shared,
      )
      return reads !== sends
        ? broken(
            'trainer.rollout_transport.type',
            'Trainer and orchestrator must use one rollout_transport; say it once, at the top.',
          )
        : null
    },
  },
  {
    id: 'variables-of-the-launcher',
    targets: NOW,
    source: 'prime-rl-configs/configs/shared.py: reject_protected_env_vars',
    example: { env_vars: { CUDA_VISIBLE_DEVICES: '0' } },
    check(table) {
      for (const component of COMPONENTS) {
        const variables = at(table, `${component}env_vars`)
        const own = isTable(variables) ? Object.keys(variables).find((name) => LAUNCHERS_OWN.test(name)) : undefined
        if (own)
          return broken(`${component}env_vars.${own}`, `${own} is set by the launcher; it cannot stand in env_vars.`)
      }
      return null
    },
  },
]
