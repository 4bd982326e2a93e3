package io.github.bursar.linkis.quota;

import io.github.bursar.linkis.quota.ConfigurationRow.Scope;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import javax.sql.DataSource;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads what limits users from Linkis's configuration tables. The manager's database has them: the
 * configuration service answers for one user and engine at a time only.
 */
final class ConfigurationTables implements QuotaImport.Configuration {
  private static final Logger log = LoggerFactory.getLogger(ConfigurationTables.class);
  private static final String QUERY =
      "SELECT l.label_value, k.`key`, v.config_value, k.default_value"
          + " FROM linkis_ps_configuration_config_value v"
          + " JOIN linkis_ps_configuration_config_key k ON k.id = v.config_key_id"
          + " JOIN linkis_cg_manager_label l ON l.id = v.config_label_id"
          + " WHERE l.label_key = 'combined_userCreator_engineType' AND k.`key` IN (?, ?, ?, ?, ?)";
  private static final String[] KEYS = {
    QuotaRules.MEMORY, QuotaRules.CORES, QuotaRules.INSTANCES, QuotaRules.YARN_MEMORY, QuotaRules.YARN_CORES
  };
  private static final int SECONDS = 30;

  private final DataSource database;
  private boolean said;

  ConfigurationTables(DataSource database) {
    this.database = database;
  }

  @Override
  public List<ConfigurationRow> read() throws SQLException {
    List<ConfigurationRow> rows = new ArrayList<>();
    try (Connection c = database.getConnection();
        PreparedStatement query = c.prepareStatement(QUERY)) {
      query.setQueryTimeout(SECONDS);
      for (int i = 0; i < KEYS.length; i++) {
        query.setString(i + 1, KEYS[i]);
      }
      try (ResultSet r = query.executeQuery()) {
        while (r.next()) {
          Optional<Scope> scope = Scope.parse(r.getString(1));
          if (scope.isPresent()) {
            rows.add(new ConfigurationRow(scope.get(), r.getString(2), r.getString(3), r.getString(4)));
          } else if (!said) {
            said = true;
            log.warn(
                "configuration that is not for user-creator,engine-version is not imported, such as that of {}",
                ConfigurationRow.shown(r.getString(1)));
          }
        }
      }
    }
    return rows;
  }
}
