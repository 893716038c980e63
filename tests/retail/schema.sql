CREATE TABLE days (day_id INT PRIMARY KEY, day DATE NOT NULL, year INT, quarter INT, month INT, week INT);
CREATE TABLE items (
  item_id INT PRIMARY KEY, name STRING, category STRING, class STRING, brand STRING, price DECIMAL(7,2), color STRING
);
CREATE TABLE stores (store_id INT PRIMARY KEY, name STRING, state STRING, market INT);
CREATE TABLE customers (customer_id INT PRIMARY KEY, name STRING, birth_year INT, state STRING, preferred BOOLEAN);
CREATE TABLE promotions (promo_id INT PRIMARY KEY, channel STRING, discount DECIMAL(4,2));
CREATE TABLE store_sales (
  ticket INT, item_id INT, day_id INT, customer_id INT, store_id INT, promo_id INT,
  quantity INT, list_price DECIMAL(7,2), sales_price DECIMAL(7,2), profit DECIMAL(7,2),
  PRIMARY KEY (ticket, item_id)
);
CREATE TABLE store_returns (ticket INT, item_id INT, day_id INT, customer_id INT, quantity INT, amount DECIMAL(7,2));
CREATE TABLE web_sales (
  order_id INT, item_id INT, day_id INT, customer_id INT, warehouse STRING, quantity INT, sales_price DECIMAL(7,2),
  shipped DATE
);
CREATE TABLE inventory (day_id INT, item_id INT, on_hand INT);
