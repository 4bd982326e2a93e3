-- How far the ledger's time has come: the next leadership goes on from there, whatever its clock says.

-- +goose Up

ALTER TABLE meta ADD COLUMN ledger_time BIGINT NOT NULL DEFAULT 0; -- nanoseconds since 1970; 0: not known, the rows tell
