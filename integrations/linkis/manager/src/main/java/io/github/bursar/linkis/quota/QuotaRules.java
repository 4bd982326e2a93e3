package io.github.bursar.linkis.quota;

import static io.github.bursar.linkis.quota.ConfigurationRow.ANY;

import io.github.bursar.client.ExternalResource;
import io.github.bursar.client.Quota;
import io.github.bursar.client.Resource;
import io.github.bursar.linkis.mapping.LabelMapper;
import io.github.bursar.linkis.quota.ConfigurationRow.Scope;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.LongConsumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Makes quota rules of Linkis's configuration, so that each combination of user, creator, engine
 * type and version gets the limit that stock Linkis would give it.
 *
 * <p>Stock looks a key up for one such combination in this order: what the user has set for the
 * creator and the engine, what the user has set for the engine, what the creator has, the engine's
 * own value, the user's global value, the global value, and the value that is built in. All rules
 * have the same labels, so exactly one of them applies to an engine. One of these only requests of
 * Linkis have, so none of them applies to what others ask for.
 *
 * <p>wds.linkis.rm.yarnqueue.instance.max has no counterpart: Linkis shows it and does not enforce
 * it. Limits per tenant do not exist in Linkis's configuration.
 */
final class QuotaRules {
  static final String MEMORY = "wds.linkis.rm.client.memory.max";
  static final String CORES = "wds.linkis.rm.client.core.max";
  static final String INSTANCES = "wds.linkis.rm.instance";
  static final String YARN_MEMORY = "wds.linkis.rm.yarnqueue.memory.max";
  static final String YARN_CORES = "wds.linkis.rm.yarnqueue.cores.max";

  private static final BigInteger LARGEST = BigInteger.valueOf(Long.MAX_VALUE);
  private static final String UNITS = "bkmgtp";
  private static final Pattern SIZE = Pattern.compile("([0-9]+)(b|[kmgtp]b?|)");

  /** Most rules of one user. */
  private static final int MAX_OF_USER = 100;
  /** Most combinations of users, creators and engines that are looked at. */
  private static final int MAX_LOOKED_AT = 100_000;
  private static final int MAX_WARNINGS = 100;
  private static final Comparator<Scope> BY_NAME = Comparator.comparing(Scope::toString);

  private final Map<Scope, Map<String, ConfigurationRow>> rows = new HashMap<>();
  private final Map<String, String> builtIn;
  private final long millisPerCore;
  private final Set<String> warnings = new TreeSet<>();
  private final Set<String> globalUsers = new HashSet<>();
  private final List<String> cutUsers = new ArrayList<>();
  private final Map<Scope, Integer> creatorRules = new HashMap<>();
  private int lookedAt;

  /**
   * @param builtIn the value of each key where the configuration has none
   * @param millisPerCore what one core of Linkis is, in thousandths of a core
   */
  QuotaRules(Collection<ConfigurationRow> configuration, Map<String, String> builtIn, long millisPerCore) {
    this.builtIn = builtIn;
    this.millisPerCore = millisPerCore;
    boolean refused = false;
    for (ConfigurationRow row : configuration) {
      if (!row.scope.fits()) {
        if (!refused) {
          refused = true;
          warnings.add("configuration with names that have control characters or more than 255 characters is left out, such as of "
              + ConfigurationRow.shown(row.scope.toString()));
        }
        continue;
      }
      rows.computeIfAbsent(row.scope, s -> new HashMap<>()).put(row.key, row);
    }
  }

  /** What in the configuration could not be used, in words. */
  Set<String> warnings() {
    return warnings;
  }

  /** The rules, the general ones first, in an order that is always the same. */
  List<Quota> rules() {
    Map<Scope, Resource> limits = new LinkedHashMap<>();
    Scope all = new Scope(ANY, ANY, ANY, ANY);
    limits.put(all, limit(all));

    Map<Scope, Set<String>> creators = new TreeMap<>(BY_NAME);
    Map<String, Map<Scope, Set<String>>> users = new TreeMap<>();
    for (Scope s : rows.keySet()) {
      Scope engine = s.withUser(ANY).withCreator(ANY);
      if (!s.anyEngine()) {
        Set<String> ofEngine = creators.computeIfAbsent(engine, e -> new TreeSet<>());
        if (s.user.equals(ANY)) {
          ofEngine.add(s.creator);
        } else {
          users.computeIfAbsent(s.user, u -> new TreeMap<>(BY_NAME)).computeIfAbsent(engine, e -> new TreeSet<>()).add(s.creator);
        }
      } else if (s.creator.equals(ANY) && !s.user.equals(ANY)) {
        users.computeIfAbsent(s.user, u -> new TreeMap<>(BY_NAME));
        globalUsers.add(s.user);
      }
    }
    creators.forEach((engine, ofEngine) -> {
      put(limits, engine, all);
      ofEngine.remove(ANY);
      int before = limits.size();
      ofEngine.forEach(creator -> put(limits, engine.withCreator(creator), engine, all));
      creatorRules.put(engine, limits.size() - before);
    });
    // those with little configuration first: one with much takes nothing from them
    List<String> order = new ArrayList<>(users.keySet());
    order.sort(Comparator.comparingInt(u -> users.get(u).values().stream().mapToInt(Set::size).sum()));
    for (String user : order) {
      addUser(limits, all, user, users.get(user), creators);
    }

    if (!cutUsers.isEmpty()) {
      warnings.add("some rules of " + cutUsers.size() + " users are left out, such as of " + ConfigurationRow.shown(cutUsers.get(0)) + ": a user has at most "
          + MAX_OF_USER + ", and " + MAX_LOOKED_AT + " combinations are looked at");
    }
    List<Quota> rules = new ArrayList<>();
    limits.forEach((scope, limit) -> rules.add(Quota.builder(selector(scope)).limit(limit).build()));
    return rules;
  }

  private void addUser(Map<Scope, Resource> limits, Scope all, String user, Map<Scope, Set<String>> own, Map<Scope, Set<String>> creators) {
    int before = limits.size();
    boolean cut = false;
    if (globalUsers.contains(user)) {
      put(limits, all.withUser(user), all);
    }
    for (Scope engine : globalUsers.contains(user) ? creators.keySet() : own.keySet()) {
      int room = Math.min(MAX_OF_USER - (limits.size() - before), MAX_LOOKED_AT - lookedAt);
      if (room <= 0) {
        cut = true;
        break;
      }
      cut |= !addEngine(limits, all, engine.withUser(user), creators.get(engine), own.getOrDefault(engine, Collections.emptySet()), room);
    }
    if (cut) {
      cutUsers.add(user);
    }
  }

  /** Adds at most so many rules of a user for an engine; false: there are more. */
  private boolean addEngine(Map<Scope, Resource> limits, Scope all, Scope ofUser, Set<String> creators, Set<String> own, int room) {
    Scope engine = ofUser.withUser(ANY);
    int before = limits.size();
    boolean fits = true;
    lookedAt++;
    put(limits, ofUser, engine, all.withUser(ofUser.user), all);
    if (limits.containsKey(ofUser)) {
      // neither of the user's and the creator's is more specific: each pair of the two needs a rule
      if (creatorRules.get(engine) >= room) {
        limits.remove(ofUser);
        fits = false;
      }
    }
    List<String> order = new ArrayList<>(creators);
    if (limits.containsKey(ofUser)) { // those that must be
      order.sort(Comparator.comparing(c -> !limits.containsKey(engine.withCreator(c))));
      own.stream().filter(c -> !creators.contains(c)).forEach(order::add);
    } else {
      order.removeIf(own::contains);
      order.addAll(0, own);
    }
    for (String creator : order) {
      if (creator.equals(ANY)) {
        continue;
      }
      if (limits.size() - before >= room || lookedAt >= MAX_LOOKED_AT) {
        return false;
      }
      lookedAt++;
      Scope ofCreator = engine.withCreator(creator);
      Scope exact = ofUser.withCreator(creator);
      if (limits.containsKey(ofUser) && limits.containsKey(ofCreator)) {
        limits.put(exact, limit(exact));
      } else {
        put(limits, exact, ofCreator, ofUser, engine, all.withUser(ofUser.user), all);
      }
    }
    return fits;
  }

  /** Adds the rule of a scope, unless what applies without it, the first of these that is there, says the same. */
  private void put(Map<Scope, Resource> limits, Scope scope, Scope... without) {
    Resource limit = limit(scope);
    for (Scope other : without) {
      if (limits.containsKey(other)) {
        if (!limits.get(other).equals(limit)) {
          limits.put(scope, limit);
        }
        return;
      }
    }
  }

  private static Map<String, String> selector(Scope s) {
    Map<String, String> selector = new LinkedHashMap<>();
    // "*" is for a label that is not there, too: without this, requests of others would be limited.
    selector.put(LabelMapper.SYSTEM_KEY, LabelMapper.SYSTEM);
    selector.put("user", s.user);
    selector.put("creator", s.creator);
    selector.put("engineType", s.engineType);
    selector.put("engineVersion", s.engineVersion);
    return selector;
  }

  private Resource limit(Scope s) {
    Resource.Builder yarn = Resource.builder();
    ifLimited(bytes(s, YARN_MEMORY), 1, yarn::memoryBytes);
    ifLimited(count(s, YARN_CORES), 1000, yarn::cpuMillis);
    Resource.Builder limit = Resource.builder();
    ifLimited(bytes(s, MEMORY), 1, limit::memoryBytes);
    ifLimited(count(s, CORES), millisPerCore, limit::cpuMillis);
    ifLimited(count(s, INSTANCES), 1, limit::instances);
    Resource inQueues = yarn.build();
    if (!inQueues.equals(Resource.EMPTY)) {
      // whatever queue: stock counts them together
      limit.external(ExternalResource.of("yarn", "*", "*", inQueues));
    }
    return limit.build();
  }

  /** Sets what limits: not the largest number, nor what is more than Bursar can count. */
  private static void ifLimited(long n, long unit, LongConsumer set) {
    if (n <= Resource.MAX_QUANTITY / unit) {
      set.accept(n * unit);
    }
  }

  private long bytes(Scope s, String key) {
    return first(s, key, QuotaRules::parseBytes);
  }

  /** As Linkis reads sizes: 1024, 512m, 20G, 20gb. What is larger than any long is the largest. */
  static long parseBytes(String text) {
    Matcher m = SIZE.matcher(text.toLowerCase(Locale.ROOT));
    if (!m.matches()) {
      throw new IllegalArgumentException(text);
    }
    int power = m.group(2).isEmpty() ? 0 : UNITS.indexOf(m.group(2).charAt(0));
    return new BigInteger(m.group(1)).shiftLeft(10 * power).min(LARGEST).longValue();
  }

  private long count(Scope s, String key) {
    return first(s, key, QuotaRules::parseCount);
  }

  /** A number of cores or engines, which are ints in Linkis: the largest int is without a limit. */
  static long parseCount(String text) {
    long n = new BigInteger(text).min(LARGEST).longValue();
    return n >= Integer.MAX_VALUE ? Long.MAX_VALUE : n;
  }

  private interface Parser {
    long parse(String text);
  }

  /** The first value that can be used, as stock would look for it. */
  private long first(Scope s, String key, Parser parser) {
    for (Candidate c : candidates(s, key)) {
      try {
        long n = parser.parse(c.value.trim());
        if (n >= 0) {
          return n;
        }
      } catch (RuntimeException e) {
        // said below
      }
      warn(key + " of " + ConfigurationRow.shown(c.from) + " is " + ConfigurationRow.shown(c.value) + ": want a number that is not negative, such as 10 or 20G; it is left out");
    }
    throw new IllegalStateException(key + ": the built-in value " + builtIn.get(key) + " is no number");
  }

  private void warn(String text) {
    if (warnings.size() < MAX_WARNINGS) {
      warnings.add(text);
    }
  }

  private static final class Candidate {
    final String from;
    final String value;

    Candidate(String from, String value) {
      this.from = from;
      this.value = value;
    }
  }

  private List<Candidate> candidates(Scope s, String key) {
    List<Candidate> list = new ArrayList<>();
    if (!s.anyEngine()) {
      Scope engine = s.withUser(ANY).withCreator(ANY);
      ConfigurationRow exact = s.user.equals(ANY) || s.creator.equals(ANY) ? null : row(s, key);
      add(list, exact, true);
      if (exact == null) {
        // an empty value of these hides the next one and is passed over itself
        ConfigurationRow user = s.user.equals(ANY) ? null : row(engine.withUser(s.user), key);
        ConfigurationRow creator = s.creator.equals(ANY) ? null : row(engine.withCreator(s.creator), key);
        add(list, user != null ? user : creator, false);
      }
      add(list, row(engine, key), true);
    }
    Scope global = s.withAnyEngine().withCreator(ANY);
    add(list, row(global, key), true);
    add(list, row(global.withUser(ANY), key), true);
    list.add(new Candidate("Linkis", builtIn.get(key)));
    return list;
  }

  private static void add(List<Candidate> list, ConfigurationRow row, boolean orDefault) {
    if (row == null) {
      return;
    }
    String value = row.value == null || row.value.trim().isEmpty() ? orDefault ? row.defaultValue : null : row.value;
    if (value != null && !value.trim().isEmpty()) {
      list.add(new Candidate(row.scope.toString(), value));
    }
  }

  private ConfigurationRow row(Scope s, String key) {
    Map<String, ConfigurationRow> of = rows.get(s);
    return of == null ? null : of.get(key);
  }
}
