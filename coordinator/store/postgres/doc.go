// Package postgres keeps a store in a database of PostgreSQL, for coordinators that share it.
package postgres
