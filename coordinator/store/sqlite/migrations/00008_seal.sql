-- The secret keys with which this store's coordinators seal grants, see package seal: the newest first, 32 bytes each. The next
-- leadership makes the first one.

-- +goose Up

PRAGMA user_version = 8;

ALTER TABLE meta ADD COLUMN seal_keys BLOB NOT NULL DEFAULT '';
