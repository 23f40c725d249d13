// Keys of prime-rl's nested `rl` and `sft` configs as of 2026-08 (commit 559b447), table by table. Only names: what has a
// counterpart here is translated first; the rest is checked against this list and kept for full-size runs.
// `key*` is open: anything may stand below it. `[]` is a list of tables.

export const PRIME_RL_2026_08 = `
(root): type max_steps seq_len output_dir clean dry_run env_vars* env_server_base_port matmul_precision
model: name trust_remote_code vlm*
model.client: base_url api_key_var headers* headers_from_env* admin_base_url wait_for_ready_timeout skip_model_check
tokenizer: name trust_remote_code chat_template
run: name dir
resume: step dir
ckpt: interval keep_last keep_interval output_dir
log: level json_logging
monitors.wandb: project entity name group tags offline
monitors.file: path
monitors.prime: name
weight_broadcast: type host port timeout quantize_in_weight_transfer session_id
rollout_transport: type host port hwm
deployment: type gpus_per_node num_train_gpus num_infer_gpus num_train_nodes num_infer_nodes num_infer_replicas nodes_per_fsdp_group orchestrator_on_inference
slurm: job_name project_dir template_path partition nodelist exclude account time pre_run_command cleanup_grace_period shared_fs

orchestrator: batch_size token_batch_size group_size seq_len max_steps max_off_policy_steps tasks_per_minute collect_inference_metrics inference_metrics_roles env_server_base_port num_train_workers pad_to_multiple_of env_vars* output_dir
orchestrator.concurrency: initial_inflight min_inflight max_inflight
orchestrator.train: filter_zero_advantages
orchestrator.train.sampling: temperature max_completion_tokens extra_body*
orchestrator.train.source[]: name ratio group_size env* sampling* algo* curriculum* serve*
orchestrator.algo: type length_penalty* teacher* sampling* decay roles* filter* demo_key template max_score_tokens renderer*
orchestrator.eval: num_examples group_size interval skip_first_step retrigger_on_resume
orchestrator.eval.sampling: temperature top_p top_k min_p max_completion_tokens reasoning_effort extra_body*
orchestrator.eval.source[]: name env* sampling* num_examples group_size interval serve*
orchestrator.renderer: name
orchestrator.model: name trust_remote_code vlm*
orchestrator.model.lora: name rank alpha
orchestrator.model.client: base_url api_key_var headers* headers_from_env* admin_base_url wait_for_ready_timeout skip_model_check
orchestrator.tokenizer: name trust_remote_code chat_template
orchestrator.log: level vf_level json_logging log_data interval
orchestrator.heartbeat: url
orchestrator.ckpt: interval keep_last keep_interval output_dir wait_for_weights_timeout skip_progress
orchestrator.resume: step dir
orchestrator.rollout_transport: type host port hwm
orchestrator.monitors: wandb* file* prime*
orchestrator.weight_broadcast: type host port timeout quantize_in_weight_transfer session_id inference_world_size

trainer: max_steps matmul_precision enable_token_export enable_router_replay memory_profiler_path trace_path dist_timeout_seconds env_vars* output_dir
trainer.model: name trust_remote_code vlm* seq_len impl attn ac* ac_offloading* compile* optim_cpu_offload fsdp_cpu_offload full_offload* reshard_after_forward moe* quantization* index_cache* freeze_moe_router debug* fused_lm_head_token_chunk_size cp cp_style ep dp_replicate optimization_dtype reduce_dtype
trainer.model.lora: name rank alpha dropout target_modules modules_to_save
trainer.tokenizer: name trust_remote_code chat_template
trainer.optim: type lr weight_decay max_norm betas1 betas2 mu momentum nesterov adjust_lr
trainer.scheduler: type warmup_steps decay_steps min_lr
trainer.loss: type dppo_mask_low dppo_mask_high adv_tau kl_tau ipo_threshold import_path kwargs*
trainer.ckpt: interval keep_last keep_interval output_dir skip_progress skip_scheduler skip_dataloader skip_optimizer
trainer.data: fake*
trainer.resume: step dir
trainer.rollout_transport: type host port hwm
trainer.log: level vf_level json_logging log_data interval ranks_filter
trainer.metrics_server: host port
trainer.heartbeat: url
trainer.gc: interval
trainer.monitors: wandb* file* prime*
trainer.weight_broadcast: type host port timeout quantize_in_weight_transfer session_id inference_world_size

inference: backend_port env_vars* output_dir
inference.server: host port
inference.router: type
inference.vllm*
inference.deployment: type gpus_per_node num_nodes
inference.log: level json_logging

renderer: name
data: type name batch_size seq_len micro_batch_size shuffle seed loss_mask* subsets splits probabilities stopping_strategy
val: interval data*
`
