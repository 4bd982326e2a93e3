package main

import "github.com/spf13/cobra"

// exitCodesText is the page about exit codes.
const exitCodesText = `Exit codes. Those of sysexits.h have the same meaning as there:

    0   done; of "bursar explain" an answer, whatever it is, "can never fit" too
    1   another error
   64   usage: the command line cannot be understood
   65   bad input data: a file or a request that is wrong, a short id that is
        not unique; a request that can never fit, as it is larger than a
        quota, a queue's maximum or the host that it is for; of
        "bursar confirm" a process that cannot be the engine
   66   no such allocation, host, rule, queue, cluster or file
   69   nobody answers, or not in time; a check of a cluster that cannot be read
   75   refused or timed out for lack of resources: try again later; also if
        no host is there yet, or none that large
   77   not allowed
   78   bad configuration (coordinator, agent, dev, a check of providers); a
        file of a certificate or token that cannot be used

A command about several things tries each; its code is that of the first
failure. Of "bursar confirm" 66 means: the reservation is gone, stop the engine.

"bursar run", also with --remote, ends with its command's own code, and "bursar
wait" with that of the engine: of several the first one that is not 0. And:

  124   of "bursar wait": --timeout was over first
  126   the command cannot be executed
  127   there is no such command
  128+n signal n ended the command, or interrupted bursar while it waited`

// topics are pages of help that belong to no command: bursar help TOPIC.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{
			Use:   "exit-codes",
			Short: "What the exit codes mean",
			Long:  exitCodesText,
		},
		outputTopic(), externalTopic(), namesTopic(),
		{
			Use:   "environment",
			Short: "Environment variables",
			Long: `Where the servers are, if no flag says so:

  BURSAR_ADDR    the coordinators: HOST:PORT or http(s)://HOST:PORT, several
                 with commas between them; or consul, consul://HOST:PORT or
                 consul://HOST:PORT/SERVICE for those that Consul knows, with
                 the CONSUL_ variables as for Consul's own commands, and
                 ?cluster=NAME after it if Consul knows several clusters;
                 default http://127.0.0.1:7070. For commands: an agent does not
                 read it, see BURSAR_AGENT_COORDINATORS below
  BURSAR_AGENT   this machine's agent: the path of its socket, or HOST:PORT;
                 default: the socket of your own "bursar dev" if one runs
                 ($XDG_RUNTIME_DIR/bursar/agent.sock), else
                 /run/bursar/agent.sock

allocations, explain, logs, signal, stop and wait find their server by
themselves. The first of these decides, and if you have named none they say on
stderr which server they ask:

  --addr, or --agent without it
  BURSAR_ADDR, or BURSAR_AGENT without it
  your own token or certificate: 127.0.0.1:7070, if a coordinator listens
  the socket of this machine's agent, if there is one: the agent answers about
                 its own host, and knows you by your account
  127.0.0.1:7070, also for allocations that the agent does not have

What to show to coordinators and whom to trust, if no flag says so:

  BURSAR_TOKEN_FILE, BURSAR_TOKEN
                 the file with the bearer token, or the token itself
  BURSAR_TLS_CA  the file of the CAs that may have issued the coordinators'
                 certificates; default: those of the machine
  BURSAR_TLS_CERT, BURSAR_TLS_KEY
                 the files of a client certificate and of its private key
  BURSAR_TLS_SERVER_NAME
                 the name that a coordinator's certificate must have; default:
                 the address that is called
  BURSAR_SERVER_USERS
                 more users whose programs may answer on this machine's loopback
                 without TLS, and on the sockets of agents: names or numbers,
                 with commas between them. Always trusted are root, users of
                 services (below 1000, and 61184 to 65519) and you. nobody
                 (65534) and the 65532 of many container images are not among
                 these. Agents, coordinators and the Go client use this
                 variable too.

What "bursar run" passes to its command, also with --remote, as does "bursar
submit":

  BURSAR_ALLOCATION_ID   the allocation's id
  BURSAR_MEMORY_BYTES    memory it is entitled to
  BURSAR_CPU_MILLIS      CPU it is entitled to, in thousandths of a core
  BURSAR_AGENT           this machine's agent, so that the command can run
                         "bursar confirm --application ID"
  BURSAR_LABEL_…         of a command on another host: its labels, as in
                         BURSAR_LABEL_user

The configuration of "bursar coordinator" and "bursar agent". A variable wins
over the file, and a flag wins over the variable:

  BURSAR_COORDINATOR_FIELD, BURSAR_AGENT_FIELD
                 the field's path in capitals, with _ between words and between
                 sections: BURSAR_COORDINATOR_DATA_DIR for dataDir,
                 BURSAR_COORDINATOR_LIMITS_QUEUE for limits.queue,
                 BURSAR_AGENT_COORDINATORS for coordinators, with commas`,
		},
	}
}

// outputTopic is about what is printed, and where.
func outputTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "output",
		Short: "What -o json prints, and what a refusal looks like",
		Long: `With -o json a command prints the API's messages:

  a list             an object with the list, and the revision at which it was
                     read: {"allocations": [...], "revision": "4711"}
  one thing          that thing: {"id": "3f7k...", "state": ...}
  a new allocation   (bursar allocate, run --detach) the API's answer, which has
                     it in "allocation"
  several things     each by itself, one after the other, as jq reads them; null
                     for one that nobody knows, if that is no error
  what happens       (bursar watch) an object in each line

Zeros, empty texts and empty lists are there. What is left out is not zero: a
quantity that is not set or not known, a time that has not come, a part that is
not there. Whole numbers of 64 bits are texts, as in all JSON of protobuf: in jq
use tonumber before you compare them. Fields are added from time to time; none
is removed.

    bursar hosts -o json | jq -r '.hosts[] | select(.headroomBytes) |
      select((.headroomBytes | tonumber) < 4294967296) | .id'

An error is one line of standard error, and standard output has nothing of it:

    {"error": {"message": "not enough resources", "exitCode": 75,
      "notes": [...], "hints": [...], "code": "resource_exhausted", ...}}

The message, the notes and the hints are what is printed without -o json. code
is that of the API, if it has answered. insufficientResources and invalidField
are the API's details. Other lines of standard error, such as the place in the
queue of a request that waits, are no JSON. The exit code is the same as without
-o json; see: bursar help exit-codes.

In tables, sizes have their unit. CPU is in cores: 2 are two cores, 500m half of
one. Ages and durations have their unit. Times are in this machine's zone. A
time with a T and a Z in it, as JSON and the servers' own messages have it, is
in UTC.`,
	}
}

// externalTopic is about parts of requests in other clusters.
func externalTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "external",
		Short: "Parts in queues of other clusters: --external",
		Long: `A request can have parts in queues of other clusters, such as YARN's or those
that a command prints (exec: licences, for example), in addition to what it asks
for on its host, or instead of it. It is granted when all of it fits at once:
the host, the quotas, each queue and every queue above that one. With --wait it
waits for a queue as for a host.

    --external KIND:CLUSTER:QUEUE[@PARTITION],NAME=QUANTITY,…

  KIND       what kind of cluster: yarn or exec
  CLUSTER    its name in "bursar providers". If it is empty, or left out with
             its colon: the one that the label cluster names, else the default
             cluster
  QUEUE      the full path: root.a.a1. Of YARN also its last name, a1, if that
             is unique
  PARTITION  a node label; if it is left out, the queue's default partition
             Names with a comma or an @ are in double quotes; see: bursar help
             names
  NAME       memory (4GiB), cpu (2, or 500m; a vcore is 1), instances, or
             another countable of the cluster such as yarn.io/gpu or licence
             am-memory and am-cpu: what the application's master takes of that
             applications: how many it is at the same time, if not one

    --external yarn:prod:root.a.a1,memory=64GiB,cpu=16
    --external yarn:prod:root.a@gpu,memory=32GiB,yarn.io/gpu=2

    --external exec:cad:licences.solver,licence=3

  the only queue called a1 in the default cluster:

    --external yarn:a1,memory=64GiB,cpu=16

YARN starts few masters in a queue at the same time. For Spark in cluster mode
say what the driver takes:

    --external yarn:prod:root.a,memory=64GiB,cpu=16,am-memory=4608MiB,am-cpu=2

It may be given several times, once for each queue. "bursar queues" shows the
queues and what each has left. "bursar explain" with the same flags says whether
the request fits.

At first a grant counts in the queue in addition to what the queue shows. As
soon as you know the application, say so: "bursar confirm ID --application
application_…", or within "bursar run" just "bursar confirm --application
application_…". Then the application's use is told apart from the grant exactly.
Without it, one minute after the engine was confirmed bursar assumes that the
queue shows all of the part.

"bursar quota set" has the same flag for what a user, a creator or an engine
type may have in queues. There CLUSTER and QUEUE may be * for all of them, in
quotes for the shell, and an empty CLUSTER is *, too. QUEUE is a full path and
counts what is below it. There is no PARTITION: all of them count.

    bursar quota set 'user=*' --external \
      'yarn:*:*,memory=200GiB,cpu=100,applications=40'

applications counts a part in a YARN queue as one if it does not say more.
instances counts only what parts say of it: without instances=1 in the requests
it limits nobody. Parts of exec have no applications: their requests must say
instances=1, for the pods of the Kubernetes example, too.`,
	}
}
