import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/** Counts in a batch of random rows. */
public class FlinkJob {
  public static void main(String[] arguments) throws Exception {
    TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inBatchMode());
    tables.executeSql(
        "CREATE TABLE numbers (n BIGINT, s STRING) WITH ('connector' = 'datagen',"
            + " 'number-of-rows' = '300000', 'fields.n.min' = '0', 'fields.n.max' = '999',"
            + " 'fields.s.length' = '40')");
    try (var rows = tables.executeSql(
        "SELECT COUNT(*) FROM (SELECT n, COUNT(DISTINCT s) FROM numbers GROUP BY n)").collect()) {
      System.out.println("counted " + rows.next());
    }
  }
}
