// What tools on the JDBC driver ask: metadata, prepared statements, batches, transactions, fetch sizes.
import java.math.BigDecimal;
import java.sql.*;

public class Catalog {
    public static void main(String[] arguments) throws Exception {
        try (Connection client = DriverManager.getConnection(arguments[0], "ann", "")) {
            DatabaseMetaData meta = client.getMetaData();
            System.out.println("product " + meta.getDatabaseProductName() + " " + meta.getDatabaseMajorVersion());
            show("schemas", meta.getSchemas(), "TABLE_SCHEM");
            show("tables", meta.getTables(null, "public", "%", null), "TABLE_NAME", "TABLE_TYPE");
            show("columns", meta.getColumns(null, "public", "orders", "%"), "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE",
                 "DECIMAL_DIGITS", "IS_NULLABLE");
            show("keys", meta.getPrimaryKeys(null, "public", "orders"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME");
            show("indexes", meta.getIndexInfo(null, "public", "orders", false, false), "INDEX_NAME", "COLUMN_NAME");
            show("imported", meta.getImportedKeys(null, "public", "orders"), "FKTABLE_NAME");
            show("types", meta.getTypeInfo(), "TYPE_NAME");
            try (PreparedStatement find = client.prepareStatement("SELECT customer, amount, day FROM orders WHERE id = ?")) {
                for (int turn = 0; turn < 7; turn++) {  // from the fifth on the driver prepares it, and asks for binary
                    find.setLong(1, 1);
                    show("found", find.executeQuery(), "customer", "amount", "day");
                }
            }
            client.setAutoCommit(false);
            try (PreparedStatement add = client.prepareStatement("INSERT INTO orders (id, amount) VALUES (?, ?)")) {
                for (int id = 900; id < 903; id++) {
                    add.setLong(1, id);
                    add.setBigDecimal(2, new BigDecimal("1.25"));
                    add.addBatch();
                }
                System.out.println("batch " + add.executeBatch().length);
            }
            try (Statement all = client.createStatement()) {
                all.setFetchSize(2);
                show("fetched", all.executeQuery("SELECT id FROM orders WHERE id >= 900 ORDER BY id"), "id");
            }
            client.rollback();
            try (Statement refused = client.createStatement()) {
                refused.executeQuery("SELECT nothing FROM orders");
            } catch (SQLException error) {
                System.out.println("error " + error.getSQLState());
            }
            client.rollback();
        }
    }

    static void show(String what, ResultSet rows, String... columns) throws SQLException {
        while (rows.next()) {
            StringBuilder line = new StringBuilder(what);
            for (String column : columns) line.append(" ").append(rows.getString(column));
            System.out.println(line);
        }
        rows.close();
    }
}
