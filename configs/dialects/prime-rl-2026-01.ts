// Keys of prime-rl's nested `rl` config as of 2026-01 (commit e794fbe), in the form of prime-rl-2026-08.ts.

export const PRIME_RL_2026_01 = `
(root): max_steps seq_len output_dir clean bench dump_config inference_gpu_ids trainer_gpu_ids teacher_gpu_ids max_async_level async_level
model: name trust_remote_code
log: level vf_level
ckpt: interval keep_last keep_interval resume_step
wandb: project entity name group tags offline
weight_broadcast: type port timeout

orchestrator: batch_size rollouts_per_example seq_len max_steps max_async_level strict_async_level max_off_policy_steps oversampling_factor max_concurrent workers_per_env mask_env_responses trajectory_strategy output_dir bench seed num_train_workers
orchestrator.sampling: max_tokens temperature temp_scheduler* repetition_penalty min_tokens seed extra_body*
orchestrator.env[]: id args* name address extra_env_kwargs* log*
orchestrator.buffer: online_difficulty_filtering easy_threshold hard_threshold easy_fraction hard_fraction env_ratios seed skip_verification hash_keys
orchestrator.advantage: type length_weighted_mean import_path kwargs*
orchestrator.eval: interval num_examples rollouts_per_example eval_base_model skip_eval_on_resume cancel_inflight_rollouts_on_eval reasoning_field per_rollout retry*
orchestrator.eval.sampling: max_tokens temperature top_p top_k min_p repetition_penalty min_tokens seed reasoning_effort extra_body*
orchestrator.eval.env[]: id args* name num_examples rollouts_per_example skip_first address
orchestrator.eval.save: disk* hf* env_hub stream
orchestrator.val: num_examples rollouts_per_example interval
orchestrator.model: name trust_remote_code
orchestrator.model.lora: name rank alpha
orchestrator.client: base_url api_key_var timeout headers* server_type admin_base_url skip_model_check elastic*
orchestrator.teacher_model*
orchestrator.log: level vf_level file env_worker_logs
orchestrator.ckpt: interval keep_last keep_interval resume_step wait_for_weights_timeout skip_progress skip_buffer
orchestrator.optim: lr
orchestrator.prime_monitor*
orchestrator.rollout_transport*
orchestrator.wandb: project entity name group tags offline log_extras*
orchestrator.reports_config*
orchestrator.heartbeat: url
orchestrator.weight_broadcast: type host port timeout

trainer: max_steps max_async_level matmul_precision output_dir memory_profiler_path trace_path dist_timeout_seconds max_concurrent_runs
trainer.model: name trust_remote_code seq_len impl attn ac* ac_offloading* compile* fsdp_cpu_offload reshard_after_forward cp ep tp dp_replicate optimization_dtype reduce_dtype moe_use_grouped_mm fused_lm_head_chunk_size debug* load_using_meta
trainer.model.lora: rank alpha dropout target_modules modules_to_save
trainer.tokenizer: name trust_remote_code
trainer.optim: type lr weight_decay max_norm betas1 betas2 mu momentum nesterov
trainer.scheduler: type warmup_steps decay_steps min_lr
trainer.loss: type ratio_type token_mask_low token_mask_high geo_mask_low geo_mask_high sequence_mask_low sequence_mask_high sequence_clip_high adv_tau teacher_tau kl_tau import_path kwargs*
trainer.ckpt: interval keep_last keep_interval resume_step weights* skip_progress skip_scheduler skip_dataloader skip_optimizer
trainer.data: fake*
trainer.log: level file
trainer.wandb: project entity name group tags offline log_extras*
trainer.bench*
trainer.gc: interval
trainer.heartbeat: url
trainer.metrics_server: host port
trainer.weight_broadcast: type host port timeout save_sharded save_format inference_world_size
trainer.rollout_transport*

inference: enable_lora max_loras max_cpu_loras max_lora_rank gpu_memory_utilization api_server_count seed enable_prefix_caching use_deep_gemm
inference.server: host port
inference.model: name dtype max_model_len enforce_eager trust_remote_code tool_call_parser enable_auto_tool_choice reasoning_parser rope_scaling
inference.parallel: tp dp
inference.weight_broadcast: type
teacher_inference*
`
