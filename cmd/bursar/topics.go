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
   66   no such allocation, host, rule or file
   69   nobody answers, or not in time
   75   refused or timed out for lack of resources: try again later
   77   not allowed
   78   bad configuration (coordinator, agent, dev); a file of a certificate or token that cannot be used

"bursar run" ends with its command's own code, and:

  126   the command cannot be executed
  127   there is no such command
  128+n the command was ended by signal n; also a bursar that was interrupted by it while it waited`,
		},
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

What "bursar run" tells its command:

  BURSAR_ALLOCATION_ID   the allocation's id
  BURSAR_MEMORY_BYTES    memory it is entitled to
  BURSAR_CPU_MILLIS      CPU it is entitled to, in thousandths of a core

The configuration of "bursar coordinator" and "bursar agent", above their files and below their flags:

  BURSAR_COORDINATOR_FIELD, BURSAR_AGENT_FIELD
                 the field's path in capitals, with _ between words and below sections:
                 BURSAR_COORDINATOR_DATA_DIR for dataDir, BURSAR_COORDINATOR_LIMITS_QUEUE for limits.queue`,
		},
	}
}
