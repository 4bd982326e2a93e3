// Package storefacts has the parts that the commands on stores share with the servers: the
// variable and the file that name a store, and the facts that a store has about itself.
package storefacts
