CREATE TABLE person (id BIGINT PRIMARY KEY, name STRING, email STRING, city STRING, state STRING, at TIMESTAMP);
CREATE TABLE auction (
  id BIGINT PRIMARY KEY, item STRING, reserve BIGINT, at TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT
);
CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, at TIMESTAMP);
