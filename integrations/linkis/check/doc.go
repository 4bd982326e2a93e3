// Package check compares a configuration of Apache Linkis with the same on Bursar: limits of its
// ECMs and users, and settings that are replaced. It reads properties files and Linkis's database,
// and changes nothing. Passwords that it reads are in none of its results and errors.
package check
