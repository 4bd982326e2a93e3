-- The tables of a Bursar store. An allocation's payload is a bursar.store.v1.AllocationRecord; the columns beside it are what
-- queries need, and are made from it. 64-bit numbers without a sign are stored as the signed number with the same bits. In
-- texts "\" is written as "\\" and the character of number zero, which PostgreSQL does not take, as "\0".

-- +goose Up

-- One row. Every commit names the epoch it was decided under, and changes this row or nothing.
CREATE TABLE meta (
  one      SMALLINT NOT NULL PRIMARY KEY CHECK (one = 1),
  store_id TEXT     NOT NULL,
  epoch    BIGINT   NOT NULL, -- of the last leadership
  sequence BIGINT   NOT NULL, -- the ledger's revision after the last batch
  last_id  BIGINT   NOT NULL  -- the last id given out by then
);

CREATE TABLE allocation (
  id           BIGINT   NOT NULL PRIMARY KEY,
  state        SMALLINT NOT NULL,
  ended        BIGINT   NOT NULL, -- nanoseconds since 1970; 0: live
  host_id      TEXT     NOT NULL,
  caller       TEXT     NOT NULL,
  request_id   TEXT     NOT NULL, -- empty: none
  request_hash BIGINT   NOT NULL,
  forget       SMALLINT NOT NULL, -- 1: the request id may be used again
  payload      BYTEA    NOT NULL
);

-- Live rows first, in the order of their ids; then the history, in the order of ends.
CREATE INDEX allocation_by_end ON allocation (ended, id);

-- For those who ask by request id. An entry of an index has at most some 2,700 bytes, and an agent may report anything.
CREATE INDEX allocation_by_request ON allocation (substr(request_id, 1, 128), substr(caller, 1, 128)) WHERE request_id <> '';

CREATE TABLE host (
  id      TEXT  NOT NULL PRIMARY KEY,
  payload BYTEA NOT NULL
);

-- A selector may be longer than an entry of an index: the key is its SHA-256, in hexadecimal digits.
CREATE TABLE quota (
  key      TEXT  NOT NULL PRIMARY KEY,
  selector TEXT  NOT NULL,
  payload  BYTEA NOT NULL
);
