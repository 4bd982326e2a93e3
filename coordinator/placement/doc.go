// Package placement chooses hosts for requests that name none. Index implements ledger.Placer.
package placement
