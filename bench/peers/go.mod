// What the programs of peers share: it imports the standard library alone, so that it changes no
// version of a peer's dependencies.
module github.com/bursar/bursar/bench/peers

go 1.26.8
