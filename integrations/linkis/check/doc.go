// Package check compares a configuration of Apache Linkis with what it would be on Bursar:
// what limits its ECMs and users, and which of its settings are replaced. It reads properties
// files and Linkis's database, and changes nothing. Passwords that it reads are in none of its
// results and errors.
package check
