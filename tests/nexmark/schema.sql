CREATE TABLE person (
  id BIGINT PRIMARY KEY, name STRING, email STRING, credit_card STRING, city STRING, state STRING, at TIMESTAMP, extra STRING
);
CREATE TABLE auction (
  id BIGINT PRIMARY KEY, item STRING, description STRING, initial_bid BIGINT, reserve BIGINT, at TIMESTAMP, expires TIMESTAMP,
  seller BIGINT, category BIGINT, extra STRING
);
CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, at TIMESTAMP, extra STRING
);
