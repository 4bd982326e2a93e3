-- What agents have to execute for engines that have not begun: a row next to its allocation, until the engine has begun or ended.

-- +goose Up

CREATE TABLE launch (
  id      BIGINT NOT NULL PRIMARY KEY, -- of the launch's first allocation
  payload BYTEA  NOT NULL
);
