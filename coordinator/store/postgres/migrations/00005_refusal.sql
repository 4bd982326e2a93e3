-- Commands that made the ledger panic: whoever leads next refuses them.

-- +goose Up

CREATE TABLE refusal (
  id      TEXT  NOT NULL PRIMARY KEY, -- the beginning of the command's hash
  payload BYTEA NOT NULL
);
