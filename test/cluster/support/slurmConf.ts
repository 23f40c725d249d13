// The configuration of a Slurm for tests: short time-outs, pretend nodes with pretend GPUs, all on loopback.

export interface SlurmLayout {
  root: string
  host: string
  /** `22.05`. */
  version: string
  ctl: number
  names: string[]
  slurmd: number[]
  gpus: number
}

/** By file name. */
export function slurmFiles(layout: SlurmLayout): Record<string, string> {
  const { root, names, gpus } = layout
  const gres = (name: string, i: number) =>
    `NodeName=${name} Name=gpu Type=fake File=${root}/dev/gpu[${i * gpus}-${(i + 1) * gpus - 1}]\n`
  return {
    'slurm.conf': configuration(layout),
    'gres.conf': names.map(gres).join(''),
    // Older ones ask for no cgroups unless a plugin does, and do not know the word.
    ...(isNewer(layout.version) ? { 'cgroup.conf': 'CgroupPlugin=disabled\n' } : {}),
  }
}

/** From 23.11 on slurmrestd has parsers of their own, and what is "none" has no plugin. */
export const isNewer = (version: string): boolean => Number(version) >= 23.11

function configuration({ root, host, version, ctl, names, slurmd, gpus }: SlurmLayout): string {
  const node = (name: string, i: number) =>
    `NodeName=${name} NodeHostname=${host} NodeAddr=127.0.0.1 Port=${slurmd[i]} CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=2000 Gres=gpu:fake:${gpus} State=UNKNOWN`
  const nothing = isNewer(version)
    ? ''
    : 'AccountingStorageType=accounting_storage/none\nJobCompType=jobcomp/none\nSwitchType=switch/none\nJobAcctGatherType=jobacct_gather/none\n'
  return `ClusterName=lab
SlurmctldHost=${host}(127.0.0.1)
SlurmUser=slurm
SlurmctldPort=${ctl}
AuthType=auth/munge
AuthInfo=socket=${root}/run/munge.socket
CredType=cred/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=${root}/jwt_hs256.key
StateSaveLocation=${root}/state
SlurmdSpoolDir=${root}/spool.%n
SlurmctldPidFile=${root}/run/slurmctld.pid
SlurmdPidFile=${root}/run/slurmd.%n.pid
SlurmctldLogFile=${root}/log/slurmctld.log
SlurmdLogFile=${root}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
${nothing}MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge=3600
KillWait=5
InactiveLimit=0
SlurmctldTimeout=15
SlurmdTimeout=15
MessageTimeout=10
GresTypes=gpu
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
${names.map(node).join('\n')}
PartitionName=cluster Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
`
}
