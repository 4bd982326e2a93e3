// Package storefacts is what the commands on stores share with the servers: the variable and the
// file that name a store, and what a store says of itself.
package storefacts
