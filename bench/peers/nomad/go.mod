// Nomad as a peer of `make bench-peers`, and nothing else: nothing of this is shipped. Nomad is
// under the Business Source License 1.1. It is built from a checkout, in a workspace, and what the
// checkout pins counts: the version here is only that of a release with the same interface.
module github.com/bursar/bursar/bench/peers/nomad

go 1.26.8

require (
	github.com/bursar/bursar/bench/peers v0.0.0
	github.com/hashicorp/go-hclog v1.6.3
	github.com/hashicorp/go-memdb v1.3.5
	github.com/hashicorp/nomad v1.11.0
)

replace github.com/bursar/bursar/bench/peers => ../
