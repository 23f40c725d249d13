// What `rollout-lab serve --init` writes to begin with: a server of this machine, and the lines that open it to others.

export const NEW_SERVER_TOML = `# A Rollout Lab server. \`rollout-lab serve --check --config server.toml\` says what is wrong with it.
# Changes to [access], [proxy], [[node]], log.level and server.hosts are taken while it runs; others wait for a restart.

[server]
host = "127.0.0.1"              # another address is refused until there is a key: rollout-lab serve --init
port = 5173
# hosts = ["lab.example"]       # other names under which it is asked
# public_url = "https://lab.example"  # when something with TLS stands in front

[access]
# origins = ["https://notebook.example"]  # pages of other origins that may ask with a key

[store]
folder = "data"                 # from the folder of this file
# url_env = "DATABASE_URL"      # postgres://… in a variable, in the place of SQLite

[secrets]
# key_file = "secrets.key"      # seals secret sets; keep it apart from backups of the data
# key_env = "ROLLOUT_LAB_SECRETS_KEY"

[log]
level = "info"
# file = "server.log"

[runs]
# keep_days = 30
# keep_bytes = 100_000_000_000

[local]
max_runs = 1                    # on this machine at the same time

# [[node]]                      # a vLLM node behind the proxy
# name = "a"
# url = "http://10.0.0.7:8000"
# key_env = "NODE_A_KEY"
`
