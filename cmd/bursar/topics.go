package main

import "github.com/spf13/cobra"

// topics are pages of help that belong to no command: bursar help TOPIC.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{
			Use:   "exit-codes",
			Short: "What the exit codes mean",
			Long: `Exit codes, as in sysexits.h where it has one:

    0   done
    1   another error
   64   usage: the command line cannot be understood
   65   bad input data: a file or a request that is wrong, a short id that is not unique
   66   no such allocation, host, rule, queue, cluster or file
   69   nobody answers, or not in time; a check of a cluster that cannot be read
   75   refused or timed out for lack of resources: try again later
   77   not allowed
   78   bad configuration (coordinator, agent, dev, a check of providers); a file of a certificate or token that cannot be used

"bursar run" ends with its command's own code, and:

  126   the command cannot be executed
  127   there is no such command
  128+n the command was ended by signal n; also a bursar that was interrupted by it while it waited`,
		},
		externalTopic(),
		{
			Use:   "environment",
			Short: "Environment variables",
			Long: `Where the servers are, below the flags:

  BURSAR_ADDR    the coordinators: HOST:PORT or http(s)://HOST:PORT, or several with commas between them; or
                 consul, consul://HOST:PORT or consul://HOST:PORT/SERVICE: those that Consul knows of, with the CONSUL_
                 variables as for Consul's own commands; default http://127.0.0.1:7070
  BURSAR_AGENT   this machine's agent, path of its socket or HOST:PORT; default: the socket of your own "bursar dev" where
                 one runs ($XDG_RUNTIME_DIR/bursar/agent.sock), else /run/bursar/agent.sock

What coordinators are shown, and whom to trust, below the flags:

  BURSAR_TOKEN_FILE, BURSAR_TOKEN
                 the file with the bearer token, or the token itself
  BURSAR_TLS_CA  the file of the CAs that may have issued the coordinators' certificates; default: those of the machine
  BURSAR_TLS_CERT, BURSAR_TLS_KEY
                 the files of a client certificate and of its private key
  BURSAR_TLS_SERVER_NAME
                 the name that a coordinator's certificate must have; default: the address that is called
  BURSAR_SERVER_USERS
                 the users, by name or number and with commas between, whose programs may answer on this machine's
                 loopback without TLS, besides root, services' users (below 1000, and 61184 to 65519) and your own: nobody
                 (65534) and the 65532 of many container images are not among these; agents, coordinators and the Go
                 client go by it as well

What "bursar run" tells its command:

  BURSAR_ALLOCATION_ID   the allocation's id
  BURSAR_MEMORY_BYTES    memory it is entitled to
  BURSAR_CPU_MILLIS      CPU it is entitled to, in thousandths of a core
  BURSAR_AGENT           this machine's agent, for "bursar confirm --application ID" in it

The configuration of "bursar coordinator" and "bursar agent", above their files and below their flags:

  BURSAR_COORDINATOR_FIELD, BURSAR_AGENT_FIELD
                 the field's path in capitals, with _ between words and below sections:
                 BURSAR_COORDINATOR_DATA_DIR for dataDir, BURSAR_COORDINATOR_LIMITS_QUEUE for limits.queue`,
		},
	}
}

// externalTopic is about parts of requests in other clusters.
func externalTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "external",
		Short: "Parts in queues of other clusters: --external",
		Long: `A request can have parts in queues of other clusters, such as YARN's, beside or instead of what it asks for on its host. It is
granted when all of it fits at once: the host, the quotas, each queue and every queue above that one. With --wait it waits for a
queue as for a host.

    --external KIND:CLUSTER:QUEUE[@PARTITION],NAME=QUANTITY,…

  KIND       what kind of cluster: yarn
  CLUSTER    its name in "bursar providers". Empty, or left out with its colon: what the label cluster says, else the default cluster
  QUEUE      the full path, root.a.a1, or the last name of it where only one queue has that
  PARTITION  a node label; left out: the queue's default partition
  NAME       memory (4GiB), cpu (2, or 500m; a vcore is 1), instances, or another countable of the cluster such as yarn.io/gpu

    --external yarn:prod:root.a.a1,memory=64GiB,cpu=16
    --external yarn:a1,memory=64GiB,cpu=16                     the only queue called a1 in the default cluster
    --external yarn:prod:root.a@gpu,memory=32GiB,yarn.io/gpu=2

It may be given several times, once for each queue. "bursar queues" shows the queues and what each has left, "bursar explain"
with the same flags whether it fits.

What is granted counts in the queue until the queue itself shows it. When the application is known, say so: "bursar confirm ID
--application application_…", or within "bursar run" just "bursar confirm --application application_…". Then the queue's figures
and ours are told apart exactly; without it, all of the part is taken for shown a minute after the engine was confirmed.`,
	}
}
