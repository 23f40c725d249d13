-- wrk's request: a chat of about 200 bytes.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. (os.getenv("BENCH_KEY") or "bench")
wrk.body = '{"model":"base","messages":[{"role":"system","content":"You answer briefly."},{"role":"user","content":"Reverse the text: the quick brown fox jumps over the lazy dog, and then rests."}],"max_tokens":64}'
done = function(summary, latency)
  io.write(string.format("RESULT %d %d %.4f %.4f %.4f %d\n", summary.requests, summary.duration, latency.mean / 1000, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status + summary.errors.timeout))
end
