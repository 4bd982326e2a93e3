-- How external clusters are read, as it came over the API.

-- +goose Up

PRAGMA user_version = 3;

CREATE TABLE provider (
  name    TEXT NOT NULL PRIMARY KEY, -- "kind:cluster"
  payload BLOB NOT NULL
);
