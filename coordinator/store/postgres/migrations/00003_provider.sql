-- How external clusters are read, as it came over the API.

-- +goose Up

CREATE TABLE provider (
  name    TEXT  NOT NULL PRIMARY KEY, -- "kind:cluster"
  payload BYTEA NOT NULL
);
