// It knows nothing of Bursar's code, and imports the standard library alone.
module github.com/bursar/bursar/test/cases/ha/checker

go 1.26
