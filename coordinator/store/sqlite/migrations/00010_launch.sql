-- What agents have to execute for engines that have not begun: a row next to its allocation, until the engine has begun or ended.

-- +goose Up

PRAGMA user_version = 10;

CREATE TABLE launch (
  id      INTEGER NOT NULL PRIMARY KEY, -- of the launch's first allocation
  payload BLOB    NOT NULL
);
