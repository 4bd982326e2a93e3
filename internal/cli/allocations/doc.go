// Package allocations has the commands on allocations: it reserves, confirms, resizes and
// releases them, lists them, and explains a decision. It starts and ends no process.
package allocations
